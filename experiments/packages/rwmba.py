"""The model family `rwmba` (RWKV-6 and Mamba-2) in PyTorch, written from docs/rwmba.md.
Inference in fp32; parameters have the names of a checkpoint without `model.`.
Not run by itself: compile.py builds Model(config), loads weights and compiles it."""

import torch
from torch import nn
from torch.nn import functional as F

from parts import back, norm, parameter


class Chunks:
    """Rows in chunks of C tokens, and which of their tokens belong together.

    Chunks lie at multiples of C in the row, whatever the segments are; masks separate these."""

    def __init__(self, starts, size):
        self.length = starts.shape[1]
        self.size = size
        self.count = -(-self.length // size)
        self.pad = self.count * size - self.length
        index = torch.arange(self.count * size, device=starts.device).view(self.count, size)
        # Tokens that fill up the last chunk continue the last segment; their results are dropped.
        starts = torch.cat([starts, starts[:, -1:].expand(-1, self.pad)], 1)
        starts = starts.view(-1, self.count, size)
        first, last = index[:, :1], starts[:, :, -1:]
        # All with a place for the heads: [B, 1, chunks, ...]
        self.same = (index[:, None, :] >= starts[:, :, :, None])[:, None]  # token j not before i's segment
        self.entered = (starts < first)[:, None, :, :, None]  # i's segment began in an earlier chunk
        self.leaves = (index >= last)[:, None, :, :, None]  # j is in the segment of the last token
        self.passes = (last < first)[:, None, :, :, None]  # one segment fills the chunk and began before

    def split(self, x):
        """[B, T, H, n] -> [B, H, chunks, C, n]"""
        x = F.pad(x, (0, 0, 0, 0, 0, self.pad)).transpose(1, 2)
        return x.unflatten(2, (self.count, self.size))

    def join(self, x):
        """[B, H, chunks, C, n] -> [B, T, H, n]"""
        return x.flatten(2, 3)[:, :, : self.length].transpose(1, 2)

    def states(self, decay, added):
        """The states that enter the chunks: S' = decay S + added, from 0."""
        decay = decay * self.passes
        state = torch.zeros_like(added[:, :, 0])
        entering = [state]
        for chunk in range(self.count - 1):
            state = decay[:, :, chunk] * state + added[:, :, chunk]
            entering.append(state)
        return torch.stack(entering, 2)


def rwkv6_scan(r, k, v, w, bonus, chunks):
    """o_t = (S + (bonus k_t) v_t^T)^T r_t;  S <- e^w S + k_t v_t^T, in chunks (rwmba.md, Chunks).

    r, k, v, w [B, T, H, K]; bonus [H, K]. Level m joins the halves, m tokens each, of blocks of 2m."""
    r, k, v, w = (chunks.split(x) for x in (r, k, v, w))
    pairs = torch.diag_embed((r * k * bonus[:, None, None]).sum(-1))
    # Sums of log decays in blocks of m tokens: before each token, behind it, and of all m.
    before, behind, total = torch.zeros_like(w), torch.zeros_like(w), w
    m = 1
    while m < chunks.size:
        blocks = (chunks.size // (2 * m), 2, m)
        r2, before = r.unflatten(3, blocks), before.unflatten(3, blocks)
        k2, behind = k.unflatten(3, blocks), behind.unflatten(3, blocks)
        total = total.unflatten(3, (-1, 2, 1))
        late = r2[..., 1, :, :] * before[..., 1, :, :].exp()
        early = k2[..., 0, :, :] * behind[..., 0, :, :].exp()
        level = F.pad(late @ early.transpose(-1, -2), (0, m, m, 0))  # the lower left quarter of a block
        level = torch.diag_embed(level.movedim(3, -1), dim1=3, dim2=5)  # blocks stand on the diagonal
        pairs = pairs + level.flatten(5, 6).flatten(3, 4)
        first, second = total[..., 0, :, :], total[..., 1, :, :]
        before = torch.stack([before[..., 0, :, :], before[..., 1, :, :] + first], -3).flatten(3, 5)
        behind = torch.stack([behind[..., 0, :, :] + second, behind[..., 1, :, :]], -3).flatten(3, 5)
        total = (first + second).flatten(3, 4)
        m *= 2
    pairs = pairs * chunks.same
    added = (k * behind.exp() * chunks.leaves).transpose(-1, -2) @ v
    states = chunks.states(total.exp().transpose(-1, -2), added)
    return chunks.join(pairs @ v + (r * before.exp() * chunks.entered) @ states)


def mamba2_scan(a, x, b, c, chunks):
    """y_t = S^T c_t;  S <- e^a S + b_t x_t^T, in chunks (rwmba.md, Chunks).

    a [B, T, H], log decays; x [B, T, H, P]; b, c [B, T, N], shared by the heads."""
    a, x = chunks.split(a[..., None]), chunks.split(x)
    b, c = chunks.split(b[:, :, None]), chunks.split(c[:, :, None])
    # Log decay from behind token j to token i, summed anew for each j, so that segments do not touch.
    lower = torch.ones(chunks.size, chunks.size, dtype=torch.bool, device=a.device).tril()
    between = (a * lower.tril(-1)).cumsum(3)
    pairs = (c @ b.transpose(-1, -2)) * between.exp() * (lower & chunks.same)
    g = a.cumsum(3)
    end, behind = g[:, :, :, -1:], between[:, :, :, -1:].transpose(-1, -2)
    added = (behind.exp() * b * chunks.leaves).transpose(-1, -2) @ x
    states = chunks.states(end.exp(), added)
    return chunks.join(pairs @ x + (g.exp() * c * chunks.entered) @ states)


class Rwkv6(nn.Module):
    """RWKV-6 (rwmba.md, RWKV-6)."""

    def __init__(self, config):
        super().__init__()
        width, rank = config["d_model"], config["mix_rank"]
        self.shape = (config["heads"], config["head_dim"])
        inner = self.shape[0] * self.shape[1]
        self.mix = parameter(6, width)
        self.mix_down = parameter(5 * rank, width)
        self.mix_up = parameter(5, width, rank)
        self.r_proj = parameter(inner, width)
        self.k_proj = parameter(inner, width)
        self.v_proj = parameter(inner, width)
        self.gate_proj = parameter(inner, width)
        self.decay = parameter(inner)
        self.decay_down = parameter(rank, width)
        self.decay_up = parameter(inner, rank)
        self.bonus = parameter(*self.shape)
        self.norm = parameter(inner)
        self.norm_bias = parameter(inner)
        self.out_proj = parameter(width, inner)

    def forward(self, x, place, chunks):
        delta = back(x, 1, place) - x
        low = F.linear(x + delta * self.mix[0], self.mix_down).tanh().unflatten(-1, (5, -1))
        mixed = []
        for i in range(5):  # of r, k, v, g and w
            mixed.append(x + delta * (self.mix[i + 1] + F.linear(low[:, :, i], self.mix_up[i])))
        r = F.linear(mixed[0], self.r_proj).unflatten(-1, self.shape)
        k = F.linear(mixed[1], self.k_proj).unflatten(-1, self.shape)
        v = F.linear(mixed[2], self.v_proj).unflatten(-1, self.shape)
        gate = F.silu(F.linear(mixed[3], self.gate_proj))
        w = -(self.decay + F.linear(F.linear(mixed[4], self.decay_down).tanh(), self.decay_up)).exp()
        o = rwkv6_scan(r, k, v, w.unflatten(-1, self.shape), self.bonus, chunks)
        o = F.layer_norm(o, self.shape[1:], eps=1e-5).flatten(2)
        return F.linear((o * self.norm + self.norm_bias) * gate, self.out_proj)


class Mamba2(nn.Module):
    """Mamba-2 (rwmba.md, Mamba-2)."""

    def __init__(self, config):
        super().__init__()
        width, heads, state = config["d_model"], config["heads"], config["state_dim"]
        self.shape = (heads, 2 * config["head_dim"])
        inner = self.shape[0] * self.shape[1]
        self.parts = (inner, inner + 2 * state, heads)
        self.channels = (inner, state, state)
        self.in_proj = parameter(sum(self.parts), width)
        self.conv = parameter(sum(self.channels), config["conv_kernel"])
        self.a_log = parameter(heads)
        self.dt_bias = parameter(heads)
        self.skip = parameter(heads)
        self.norm = parameter(inner)
        self.out_proj = parameter(width, inner)

    def forward(self, x, place, chunks):
        z, u, s = F.linear(x, self.in_proj).split(self.parts, -1)
        taps = range(self.conv.shape[1])
        u = F.silu(sum(self.conv[:, j] * back(u, j, place) for j in taps))  # model.md, G: gated DeltaNet
        a, b, c = u.split(self.channels, -1)
        a = a.unflatten(-1, self.shape)
        step = F.softplus(s + self.dt_bias)
        y = mamba2_scan(-step * self.a_log.exp(), step[..., None] * a, b, c, chunks)
        y = (y + self.skip[:, None] * a).flatten(2)
        return F.linear(norm(y * F.silu(z), self.norm), self.out_proj)


class Layer(nn.Module):
    """P: both mixers side by side; R: RWKV-6 alone; S: Mamba-2 alone. Then a feed-forward."""

    def __init__(self, config, letter):
        super().__init__()
        width, inner = config["d_model"], config["ffn_dim"]
        self.letter = letter
        self.mixer_norm = parameter(width)
        if letter != "S":
            self.rwkv = Rwkv6(config)
        if letter != "R":
            self.mamba = Mamba2(config)
        if letter == "P":
            self.rwkv_norm = parameter(width)
            self.mamba_norm = parameter(width)
            self.rwkv_gain = parameter(width)
            self.mamba_gain = parameter(width)
        self.ffn_norm = parameter(width)
        self.ffn_in = parameter(inner, width)
        self.ffn_in_bias = parameter(inner)
        self.ffn_out = parameter(width, inner)
        self.ffn_out_bias = parameter(width)

    def mixer(self, x, place, chunks):
        if self.letter == "R":
            return self.rwkv(x, place, chunks)
        if self.letter == "S":
            return self.mamba(x, place, chunks)
        rwkv = norm(self.rwkv(x, place, chunks), self.rwkv_norm)
        mamba = norm(self.mamba(x, place, chunks), self.mamba_norm)
        return self.rwkv_gain * rwkv + self.mamba_gain * mamba

    def forward(self, x, place, chunks):
        x = x + self.mixer(norm(x, self.mixer_norm), place, chunks)
        u = F.linear(norm(x, self.ffn_norm), self.ffn_in, self.ffn_in_bias)
        return x + F.linear(F.gelu(u, approximate="tanh"), self.ffn_out, self.ffn_out_bias)


class Model(nn.Module):
    """tokens, starts [B, T] -> logits [B T, V]; starts: where a token's segment begins in its row."""

    def __init__(self, config):
        super().__init__()
        if not config["pattern"] or not set(config["pattern"]) <= set("PRS"):
            raise ValueError(f"a pattern of family rwmba has letters P, R and S, not '{config['pattern']}'")
        self.chunk_size = config["chunk_size"]
        self.embedding = parameter(config["vocab_size"], config["d_model"])
        self.layers = nn.ModuleList(Layer(config, letter) for letter in config["pattern"])
        self.final_norm = parameter(config["d_model"])

    def forward(self, tokens, starts):
        place = torch.arange(tokens.shape[1], device=tokens.device) - starts
        chunks = Chunks(starts, self.chunk_size)
        x = F.embedding(tokens, self.embedding)
        for layer in self.layers:
            x = layer(x, place, chunks)
        return F.linear(norm(x, self.final_norm), self.embedding).flatten(0, 1)

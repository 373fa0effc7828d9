"""The model family `hydra` in PyTorch, written from docs/hydra.md.
Inference in fp32, every token in every pass (`routing = masked`); names as in a checkpoint without `model.`.
Not run by itself: compile.py builds Model(config), loads weights and compiles it."""

import torch
from torch import nn
from torch.nn import functional as F

from parts import back, norm, parameter


def unit(x):
    """norm2 of hydra.md, Attention."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def conv(x, weight, place):
    """y_t = sum over j < 3 of x_(t-j) W_j, for each of weight's groups (hydra.md, Attention)."""
    groups, rows, width = weight.shape
    taps = weight.view(groups, 3, rows // 3, width)
    y = 0
    for j in range(3):
        y = y + torch.einsum("btgi,gio->btgo", back(x, j, place).unflatten(-1, (groups, -1)), taps[:, j])
    return y.flatten(2)


def rotate(x, place):
    """Rotary position of interleaved pairs (model.md, M: multi-head latent attention). x [B, T, heads, d]"""
    width = x.shape[-1]
    pair = torch.arange(width // 2, dtype=torch.float32, device=x.device)
    angle = (place[:, :, None] * 10000.0 ** (-2 * pair / width))[:, :, None]
    cos, sin = angle.cos(), angle.sin()
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Segments:
    """What layers need to know of the segments."""

    def __init__(self, starts):
        index = torch.arange(starts.shape[1], device=starts.device)
        self.place = index - starts
        self.same = starts[:, :, None] == starts[:, None, :]
        self.earlier = index < index[:, None]  # [i, j]: j is before i
        self.visible = (self.same & (index <= index[:, None]))[:, None]
        self.tokens = self.same.sum(-1)  # of the segment of each token


def largest(scores, percent, segments):
    """Which tokens have the ceil(c n) largest scores of their segment; of equals the earlier ones."""
    mine, other = scores[:, :, None], scores[:, None, :]
    ahead = (other > mine) | ((other == mine) & segments.earlier)
    return (ahead & segments.same).sum(-1) < (percent * segments.tokens + 99) // 100


class Layer(nn.Module):
    """Compressed attention, then a feed-forward in several passes (hydra.md)."""

    def __init__(self, config, chooses):
        super().__init__()
        width, inner = config["d_model"], config["ffn_dim"]
        self.heads, self.groups, self.head_dim = config["heads"], config["kv_groups"], config["head_dim"]
        self.recursions, self.percent = config["recursions"], config["mod_percent"]
        self.shift = config.get("value_shift", "half") == "half"
        d, queries, keys = self.head_dim, self.heads * self.head_dim, self.groups * self.head_dim
        self.parts = (queries, keys, keys)
        self.attention_norm = parameter(width)
        self.qkv_proj = parameter(sum(self.parts), width)
        self.q_conv_heads = parameter(self.heads, 3 * d, d)
        self.q_conv = parameter(1, 3 * queries, queries)
        self.k_conv_heads = parameter(self.groups, 3 * d, d)
        self.k_conv = parameter(1, 3 * keys, keys)
        self.key_temperature = parameter(1)
        self.out_proj = parameter(width, queries)
        self.ffn_norm = parameter(width)
        self.ffn_in = parameter(2 * inner, width)
        self.ffn_out = parameter(width, inner)
        if self.recursions > 1:
            self.depth_router = parameter(width)
            self.depth_bias = parameter(1)
        if chooses:
            self.token_router = parameter(width)
        self.chooses = chooses

    def attention(self, x, segments):
        place, d = segments.place, self.head_dim
        q, k, v = F.linear(x, self.qkv_proj).split(self.parts, -1)
        mean_q = q.unflatten(-1, (-1, d)).mean(2, keepdim=True)
        mean_k = k.unflatten(-1, (-1, d)).mean(2, keepdim=True)
        q = conv(conv(q, self.q_conv_heads, place), self.q_conv, place).unflatten(-1, (-1, d))
        k = conv(conv(k, self.k_conv_heads, place), self.k_conv, place).unflatten(-1, (-1, d))
        q = rotate(unit(q + 0.5 * mean_k), place)
        k = rotate(unit(k + 0.5 * mean_q) * self.key_temperature, place)
        if self.shift:
            now, late = v.split(v.shape[-1] // 2, -1)
            v = torch.cat([now, back(late, 1, place)], -1)
        group = [h * self.groups // self.heads for h in range(self.heads)]
        k = torch.stack([k[:, :, g] for g in group], 1)
        v = torch.stack([v.unflatten(-1, (-1, d))[:, :, g] for g in group], 1)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=segments.visible)
        return F.linear(o.transpose(1, 2).flatten(2), self.out_proj)

    def share(self, u, depth, step, segments):
        """g of hydra.md, Which tokens a feed-forward takes."""
        share = torch.ones_like(u[:, :, 0])
        if self.chooses:
            scores = u @ self.token_router
            share = scores.sigmoid() * largest(scores, self.percent, segments)
        if step > 0:
            share = share * (depth - step + 1).clamp(0, 1)
        return share[:, :, None]

    def forward(self, x, segments):
        x = x + self.attention(norm(x, self.attention_norm), segments)
        depth = None
        for step in range(self.recursions):
            u = norm(x, self.ffn_norm)
            if step == 0 and self.recursions > 1:
                depth = (self.recursions - 1) * (u @ self.depth_router + self.depth_bias).sigmoid()
            a, b = F.linear(u, self.ffn_in).chunk(2, -1)
            x = x + self.share(u, depth, step, segments) * F.linear(F.silu(a) * b, self.ffn_out)
        return x


class Model(nn.Module):
    """tokens, starts [B, T] -> logits [B T, V]; starts: where a token's segment begins in its row."""

    def __init__(self, config):
        super().__init__()
        if set(config["pattern"]) != {"C"}:
            raise ValueError(f"a pattern of family hydra has the letter C only, not '{config['pattern']}'")
        last = len(config["pattern"]) - 1
        self.embedding = parameter(config["vocab_size"], config["d_model"])
        chooses = [config["mod_percent"] < 100 and 0 < i < last for i in range(last + 1)]
        self.layers = nn.ModuleList(Layer(config, choice) for choice in chooses)
        self.final_norm = parameter(config["d_model"])

    def forward(self, tokens, starts):
        segments = Segments(starts)
        x = F.embedding(tokens, self.embedding)
        for layer in self.layers:
            x = layer(x, segments)
        return F.linear(norm(x, self.final_norm), self.embedding).flatten(0, 1)

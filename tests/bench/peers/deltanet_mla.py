#!/usr/bin/env python3
"""The model of preset `base` of `deltanet_mla` in PyTorch and FLA, as fast as a patient engineer makes it: the peer that
tests/bench/gpu.sh times Assay's trainer against, on rows without documents. Needs a CUDA device, torch,
and `pip install --no-deps fla-core einops` (on Hopper FLA also wants tilelang).

usage: deltanet_mla.py [--rows 16] [--seq 2048] [LEVEL...]

Levels, each one a way that people speed up such a model:
  compiled  torch.compile(model). FLA's calls break the graph inside a loop, so head, loss and residuals stay eager.
  graph     the same, and the whole step, optimizer included, as one CUDA graph
  pieces    compiled in pieces between the mixers, head and loss included, with cuDNN's attention
  captured  the same, and the whole step as one CUDA graph
  stream16  the same with the residual stream in bf16
  fp8       the same with linears but the head in FP8 (torchao, one scale per tensor, found anew at every use)

Level fp8 needs `pip install --no-deps torchao` too. peer.py says how a step is made and timed, and what is printed.
"""
import functools

import peer
import torch
import torch.nn as nn
import torch.nn.functional as F
from fla.modules import FusedRMSNormGated, ShortConvolution
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from torch.nn.attention import SDPBackend, sdpa_kernel

product = F.linear  # of every linear but the head; level fp8 puts its own here

WIDTH, LAYERS, HEADS, HEAD, VOCABULARY = 768, 12, 12, 64, 50304
INNER = HEADS * HEAD
NOPE, ROPE, VALUE, LATENT, HIDDEN = 64, 32, 64, 256, 2048


class GatedDelta(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(WIDTH, 4 * INNER + 2 * HEADS, bias=False)
        self.conv = ShortConvolution(3 * INNER, 4, activation="silu")
        self.decay = nn.Parameter(torch.empty(HEADS).uniform_(0, 16).log())
        self.dt = nn.Parameter(torch.zeros(HEADS))
        self.norm = FusedRMSNormGated(HEAD)
        self.out = nn.Linear(INNER, WIDTH, bias=False)

    def rule(self, x, g, beta):
        q, k, v = (part.view(*x.shape[:2], HEADS, HEAD) for part in self.conv(x)[0].chunk(3, -1))
        return chunk_gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)[0]

    @torch.compiler.disable
    def eager_rule(self, x, g, beta):
        return self.rule(x, g, beta)

    @torch.compiler.disable
    def gated_norm(self, o, gate):
        return self.norm(o, gate)

    def forward(self, x):
        batch, tokens, _ = x.shape
        qkv, gate, a, b = self.inp(x).split((3 * INNER, INNER, HEADS, HEADS), -1)
        o = self.eager_rule(qkv, *decay_and_beta(a, b, self.decay, self.dt))
        o = self.gated_norm(o, gate.reshape(batch, tokens, HEADS, HEAD))
        return self.out(o.reshape(batch, tokens, -1))


class LatentAttention(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.inp = nn.Linear(WIDTH, HEADS * (NOPE + ROPE) + LATENT + ROPE, bias=False)
        self.norm = nn.RMSNorm(LATENT)
        self.up = nn.Linear(LATENT, HEADS * (NOPE + VALUE), bias=False)
        self.out = nn.Linear(HEADS * VALUE, WIDTH, bias=False)
        angle = torch.outer(torch.arange(tokens), 1e4 ** (-torch.arange(0, ROPE, 2) / ROPE))
        self.register_buffer("cos", angle.cos()[:, None])
        self.register_buffer("sin", angle.sin()[:, None])

    def forward(self, x):
        q, k, v = attention_inputs(self.inp(x), self.norm.weight, self.up.weight, self.cos, self.sin)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))


class Block(nn.Module):
    def __init__(self, index, tokens):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.mixer = LatentAttention(tokens) if index % 3 == 2 else GatedDelta()
        self.up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.mixer(self.norm1(x))
        a, b = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(a) * b)


class Model(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(i, tokens) for i in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return loss_of(self.head(self.norm(x)), targets)


def rms_norm(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def loss_of(logits, targets):
    return F.cross_entropy(logits.view(-1, VOCABULARY).float(), targets.view(-1))


def decay_and_beta(a, b, decay, dt):
    return -decay.float().exp() * F.softplus(a.float() + dt), b.float().sigmoid().to(a.dtype)


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).to(x.dtype)


def attention_inputs(projected, norm, up, cos, sin):
    batch, tokens, _ = projected.shape
    q, latent, k_rope = projected.split((HEADS * (NOPE + ROPE), LATENT, ROPE), -1)
    q_nope, q_rope = q.view(batch, tokens, HEADS, -1).split((NOPE, ROPE), -1)
    keys = product(rms_norm(latent, norm), up).view(batch, tokens, HEADS, -1)
    k_nope, v = keys.split((NOPE, VALUE), -1)
    k_rope = rotate(k_rope.unsqueeze(2), cos, sin).expand(batch, tokens, HEADS, ROPE)
    return torch.cat((q_nope, rotate(q_rope, cos, sin)), -1), torch.cat((k_nope, k_rope), -1), v.contiguous()


# The pieces between the mixers. Each is one graph for the compiler.
def feed_forward(x, norm, up, down):
    a, b = product(rms_norm(x, norm), up).chunk(2, -1)
    return x + product(F.silu(a) * b, down)


@torch.compile(dynamic=False)
def before_rule(x, norm, inp, decay, dt):
    y = rms_norm(x, norm)
    if product is F.linear:
        qkv, gate, a, b = product(y, inp).split((3 * INNER, INNER, HEADS, HEADS), -1)
    else:  # 24 columns are no multiple of the 16 that FP8 products want
        qkv, gate = product(y, inp[: 4 * INNER]).split((3 * INNER, INNER), -1)
        a, b = F.linear(y, inp[4 * INNER :]).chunk(2, -1)
    return qkv.contiguous(), gate.contiguous(), *decay_and_beta(a, b, decay, dt)


@torch.compile(dynamic=False)
def after_rule(x, o, gate, norm, out, norm2, up, down):
    batch, tokens, _ = x.shape
    z = rms_norm(o.float(), norm) * F.silu(gate.view(batch, tokens, HEADS, HEAD).float())
    return feed_forward(x + product(z.to(o.dtype).reshape(batch, tokens, -1), out), norm2, up, down)


@torch.compile(dynamic=False)
def before_attention(x, norm, inp, latent_norm, up, cos, sin):
    return attention_inputs(product(rms_norm(x, norm), inp), latent_norm, up, cos, sin)


@torch.compile(dynamic=False)
def after_attention(x, y, out, norm2, up, down):
    return feed_forward(x + product(y, out), norm2, up, down)


@torch.compile(dynamic=False)
def head_and_loss(x, norm, head, targets):
    return loss_of(F.linear(rms_norm(x, norm), head), targets)


def in_pieces(model, ids, targets, stream=torch.float32):
    x = model.embedding(ids).to(stream)
    batch, tokens = ids.shape
    for block in model.blocks:
        mixer = block.mixer
        rest = (mixer.out.weight, block.norm2.weight, block.up.weight, block.down.weight)
        if isinstance(mixer, GatedDelta):
            qkv, gate, g, beta = before_rule(x, block.norm1.weight, mixer.inp.weight, mixer.decay, mixer.dt)
            x = after_rule(x, mixer.rule(qkv, g, beta), gate, mixer.norm.weight, *rest)
        else:
            q, k, v = before_attention(x, block.norm1.weight, mixer.inp.weight, mixer.norm.weight,
                                       mixer.up.weight, mixer.cos, mixer.sin)
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
            x = after_attention(x, y.transpose(1, 2).reshape(batch, tokens, -1), *rest)
    return head_and_loss(x, model.norm.weight, model.head.weight, targets)


def whole(tokens):
    model = Model(tokens)
    return model, torch.compile(model)


def pieces(tokens, stream=torch.float32):
    model = Model(tokens)
    return model, functools.partial(in_pieces, model, stream=stream)


def stream16(tokens):
    return pieces(tokens, torch.bfloat16)


def fp8(tokens):
    from torchao.float8 import Float8LinearConfig
    from torchao.float8.float8_linear import Float8Linear, matmul_with_hp_or_float8_args

    global product
    like = Float8Linear(16, 16, bias=False, config=Float8LinearConfig())  # how its forward pass multiplies

    def product(x, weight):
        return matmul_with_hp_or_float8_args.apply(
            x.to(torch.bfloat16), weight.t(), like.linear_mm_config, like.config)

    return stream16(tokens)


LEVELS = {
    "compiled": peer.Level(whole),
    "graph": peer.Level(whole, captured=True),
    "pieces": peer.Level(pieces),
    "captured": peer.Level(pieces, captured=True),
    "stream16": peer.Level(stream16, captured=True),
    "fp8": peer.Level(fp8, captured=True),  # the last one: `product` stays its own
}

if __name__ == "__main__":
    peer.main(__doc__, "deltanet_mla", LEVELS, VOCABULARY, rows=16, tokens=2048)

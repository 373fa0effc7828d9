#!/usr/bin/env python3
"""GPT-2 (docs/gpt.md, preset `gpt2`) in PyTorch, as fast as a patient engineer makes it: the peer that tests/bench/gpu.sh
times Assay's trainer against, on rows without documents. Needs a CUDA device, torch and its triton, nothing else. Before
anything is timed, loss and gradients of a small shape are compared with the vectors that Assay's own model is tested with.

usage: gpt2.py [--rows 32] [--seq 1024] [LEVEL...]

Levels, each one a way that people speed up such a model:
  compiled   torch.compile of the whole model, head and loss included, without a break in the graph; PyTorch's attention
  tuned      the same with cuDNN's attention, and the residual stream in bf16 as Assay's side has it
  captured   the same, and the whole step as one CUDA graph
  autotuned  the same, compiled with max-autotune: minutes before the first step

peer.py says how a step is made and timed, and what is printed.
"""
import functools
import json
import math
import pathlib
import sys
from typing import NamedTuple

import peer
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

VECTORS = pathlib.Path(__file__).parents[2] / "model/gpt/gpt2_vectors.json"


class Shape(NamedTuple):
    layers: int = 12
    width: int = 768
    heads: int = 12
    hidden: int = 3072
    vocabulary: int = 50304
    positions: int = 1024


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width)
        self.qkv, self.out = nn.Linear(shape.width, 3 * shape.width), nn.Linear(shape.width, shape.width)
        self.norm2 = nn.LayerNorm(shape.width)
        self.up, self.down = nn.Linear(shape.width, shape.hidden), nn.Linear(shape.hidden, shape.width)

    def attention(self, x):
        rows, tokens, width = x.shape
        qkv = self.qkv(x).view(rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(rows, tokens, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    """Parameters in the order of the table in docs/gpt.md."""

    def __init__(self, shape, stream=None):
        super().__init__()
        self.stream = stream  # type of the residual stream; none: that of the weights
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                into_stream = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * shape.layers) if into_stream else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets):
        x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        if self.stream:
            x = x.to(self.stream)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def check_against_vectors():
    """Loss and gradients of rows as segments, with the weights and tokens of tests/model/gpt/make_gpt2_vectors.py."""
    expected = json.loads(VECTORS.read_text())["packed"]
    model = Model(Shape(layers=2, width=8, heads=2, hidden=16, vocabulary=11, positions=6)).double()
    parameters = list(model.named_parameters())
    norms = {id(module.weight) for module in model.modules() if isinstance(module, nn.LayerNorm)}
    for number, (_, parameter) in enumerate(parameters):
        place = torch.arange(parameter.numel(), dtype=torch.float64).view_as(parameter)
        parameter.data = 0.5 * torch.sin(0.7 * place + 1.3 * number + 0.1) + (id(parameter) in norms)
    place = torch.arange(12)
    loss = model(((7 * place + 3) % 11).view(2, 6), ((5 * place * place + 1) % 11).view(2, 6))
    loss.backward()
    if len(parameters) != len(expected["gradients"]):
        sys.exit(f"error: the peer has {len(parameters)} parameters, and {VECTORS} has {len(expected['gradients'])}")
    found = [("loss", loss, [expected["loss"]])]
    found += [(name, p.grad, values) for (name, p), values in zip(parameters, expected["gradients"].values())]
    for name, value, values in found:
        error = (value.detach().flatten() - torch.tensor(values, dtype=torch.float64)).abs().max().item()
        if not error < 1e-10:
            sys.exit(f"error: {name} differs from {VECTORS} by {error:.3g}: the peer is another model than Assay's")


def compiled(_):
    model = Model(Shape())
    return model, torch.compile(model, fullgraph=True, dynamic=False)


def tuned(_, mode=None):
    model = Model(Shape(), torch.bfloat16)
    call = torch.compile(model, fullgraph=True, dynamic=False, mode=mode)

    def forward(ids, targets):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):  # no other kernel: an error instead
            return call(ids, targets)

    return model, forward


LEVELS = {
    "compiled": peer.Level(compiled),
    "tuned": peer.Level(tuned),
    "captured": peer.Level(tuned, captured=True),
    "autotuned": peer.Level(functools.partial(tuned, mode="max-autotune-no-cudagraphs"), captured=True),
}

if __name__ == "__main__":
    check_against_vectors()
    peer.main(__doc__, "gpt2", LEVELS, Shape().vocabulary, rows=32, tokens=Shape().positions)

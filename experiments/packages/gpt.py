"""The model family `gpt` in PyTorch, written from docs/gpt.md.
Inference in fp32; parameters have the names of a checkpoint without `model.`.
Not run by itself: compile.py builds Model(config), loads weights and compiles it."""

import torch
from torch import nn
from torch.nn import functional as F

from parts import parameter


def norm(x, weight, bias):
    """Layer norm with eps 1e-5 (gpt.md, Whole model)."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


class Attention(nn.Module):
    """Causal attention inside each segment (gpt.md, Whole model)."""

    def __init__(self, config):
        super().__init__()
        width, self.heads, self.head_dim = config["d_model"], config["heads"], config["head_dim"]
        inner = self.heads * self.head_dim
        self.qkv_proj = parameter(3 * inner, width)
        self.qkv_bias = parameter(3 * inner)
        self.out_proj = parameter(width, inner)
        self.out_bias = parameter(width)

    def forward(self, x, visible):
        rows, length, _ = x.shape
        qkv = F.linear(x, self.qkv_proj, self.qkv_bias)
        q, k, v = qkv.view(rows, length, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return F.linear(o.transpose(1, 2).reshape(rows, length, -1), self.out_proj, self.out_bias)


class Layer(nn.Module):
    """Attention, then a feed-forward with tanh GELU."""

    def __init__(self, config):
        super().__init__()
        width, inner = config["d_model"], config["ffn_dim"]
        self.attention_norm = parameter(width)
        self.attention_norm_bias = parameter(width)
        self.attention = Attention(config)
        self.ffn_norm = parameter(width)
        self.ffn_norm_bias = parameter(width)
        self.ffn_in = parameter(inner, width)
        self.ffn_in_bias = parameter(inner)
        self.ffn_out = parameter(width, inner)
        self.ffn_out_bias = parameter(width)

    def forward(self, x, visible):
        x = x + self.attention(norm(x, self.attention_norm, self.attention_norm_bias), visible)
        u = F.linear(norm(x, self.ffn_norm, self.ffn_norm_bias), self.ffn_in, self.ffn_in_bias)
        return x + F.linear(F.gelu(u, approximate="tanh"), self.ffn_out, self.ffn_out_bias)


class Model(nn.Module):
    """tokens, starts [B, T] -> logits [B T, V]; starts: where a token's segment begins in its row."""

    def __init__(self, config):
        super().__init__()
        if set(config["pattern"]) != {"A"}:
            raise ValueError(f"a pattern of family gpt has the letter A only, not '{config['pattern']}'")
        width = config["d_model"]
        self.embedding = parameter(config["vocab_size"], width)
        self.positions = parameter(config["positions"], width)
        self.layers = nn.ModuleList(Layer(config) for _ in config["pattern"])
        self.final_norm = parameter(width)
        self.final_norm_bias = parameter(width)

    def forward(self, tokens, starts):
        index = torch.arange(tokens.shape[1], device=tokens.device)
        # Token i sees token j of its own segment if j is not later.
        visible = (index >= starts[:, :, None]) & (index <= index[:, None])
        x = F.embedding(tokens, self.embedding) + F.embedding(index - starts, self.positions)
        for layer in self.layers:
            x = layer(x, visible[:, None])
        x = norm(x, self.final_norm, self.final_norm_bias)
        return F.linear(x, self.embedding).flatten(0, 1)

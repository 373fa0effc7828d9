"""Writes gpt2_vectors.json beside this file: loss and gradients of a small GPT-2 in fp64.

The model is written out in plain PyTorch operators and shares no code with the trainer. Weights and
tokens are given by formulas, which gpt_vectors_test.cpp repeats.

Run by hand when the model changes:  python -m venv v && v/bin/pip install torch==2.11.0 &&
v/bin/python tests/model/gpt/make_gpt2_vectors.py
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, HEAD, HIDDEN, VOCABULARY, POSITIONS = 2, 2, 8, 4, 16, 11, 6
ROWS, LENGTH = 2, 6
DOCUMENTS = [0, 2, 6, 7, 12]  # cumulative ends; rows end at 6 and 12


def shapes():
    """Names and shapes in the order of docs/gpt.md."""
    yield "embedding", (VOCABULARY, WIDTH)
    yield "positions", (POSITIONS, WIDTH)
    for i in range(LAYERS):
        p = f"layers.{i}."
        yield p + "attention_norm", (WIDTH,)
        yield p + "attention_norm_bias", (WIDTH,)
        yield p + "attention.qkv_proj", (3 * HEADS * HEAD, WIDTH)
        yield p + "attention.qkv_bias", (3 * HEADS * HEAD,)
        yield p + "attention.out_proj", (WIDTH, HEADS * HEAD)
        yield p + "attention.out_bias", (WIDTH,)
        yield p + "ffn_norm", (WIDTH,)
        yield p + "ffn_norm_bias", (WIDTH,)
        yield p + "ffn_in", (HIDDEN, WIDTH)
        yield p + "ffn_in_bias", (HIDDEN,)
        yield p + "ffn_out", (WIDTH, HIDDEN)
        yield p + "ffn_out_bias", (WIDTH,)
    yield "final_norm", (WIDTH,)
    yield "final_norm_bias", (WIDTH,)


def weights():
    made = {}
    for number, (name, shape) in enumerate(shapes()):
        place = torch.arange(math.prod(shape), dtype=torch.float64)
        value = 0.5 * torch.sin(0.7 * place + 1.3 * number + 0.1)
        if name.endswith("norm"):
            value = value + 1
        made[name] = value.view(shape).requires_grad_()
    return made


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logits(w, tokens):
    """Of one document: [T, V]."""
    count = len(tokens)
    x = w["embedding"][tokens] + w["positions"][:count]
    for i in range(LAYERS):
        p = f"layers.{i}."
        norm = lambda name, y: F.layer_norm(y, (WIDTH,), w[p + name], w[p + name + "_bias"], 1e-5)
        qkv = norm("attention_norm", x) @ w[p + "attention.qkv_proj"].T + w[p + "attention.qkv_bias"]
        q, k, v = (y.view(count, HEADS, HEAD).transpose(0, 1) for y in qkv.split(HEADS * HEAD, 1))
        scores = q @ k.transpose(1, 2) / math.sqrt(HEAD)
        future = torch.ones(count, count, dtype=torch.bool).triu(1)
        o = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        o = o.transpose(0, 1).reshape(count, HEADS * HEAD)
        x = x + o @ w[p + "attention.out_proj"].T + w[p + "attention.out_bias"]
        h = norm("ffn_norm", x) @ w[p + "ffn_in"].T + w[p + "ffn_in_bias"]
        x = x + gelu(h) @ w[p + "ffn_out"].T + w[p + "ffn_out_bias"]
    x = F.layer_norm(x, (WIDTH,), w["final_norm"], w["final_norm_bias"], 1e-5)
    return x @ w["embedding"].T


def case(segments):
    w = weights()
    place = torch.arange(ROWS * LENGTH)
    tokens, targets = (7 * place + 3) % VOCABULARY, (5 * place * place + 1) % VOCABULARY
    parts = [logits(w, tokens[a:b]) for a, b in zip(segments, segments[1:])]
    loss = F.cross_entropy(torch.cat(parts), targets)
    loss.backward()
    return {
        "loss": loss.item(),
        "gradients": {
            name: [float(f"{value:.13g}") for value in x.grad.flatten().tolist()]
            for name, x in w.items()
        },
    }


def main():
    vectors = {
        "torch": torch.__version__.split("+")[0],
        "documents": DOCUMENTS,
        "varlen": case(DOCUMENTS),
        "packed": case(list(range(0, ROWS * LENGTH + 1, LENGTH))),
    }
    to = pathlib.Path(__file__).with_name("gpt2_vectors.json")
    text = json.dumps(vectors, separators=(",", ":"))
    to.write_text(text.replace("],", "],\n").replace("{", "{\n") + "\n")


if __name__ == "__main__":
    main()

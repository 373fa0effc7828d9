#!/usr/bin/env python3
"""FLA's Triton NSA (compressed and selected branch, block choice included) at the shapes of bench_operators, and dense
attention of the same heads, for the comparison in docs/results/README.md. Needs a CUDA device, torch, triton and
`pip install --no-deps fla-core einops packaging`.

usage: fla_nsa.py [TOKENS...]

stream: from the first kernel's start to the last one's end by CUDA events, what a user waits for, each after a write of
more than the L2 holds; kernels: the sum of the kernels' own times. Medians of 30 and means of 10.
"""
import statistics
import sys

import peer
import torch
import triton
from fla import __version__ as fla_version
from fla.ops.nsa import parallel_nsa
from torch.nn.functional import scaled_dot_product_attention

HEADS, GROUPS, WIDTH, BLOCK, CHOSEN = 16, 1, 64, 64, 16


def inputs(tokens):
    torch.manual_seed(2)
    like = dict(device="cuda", dtype=torch.bfloat16)
    q = torch.randn(1, tokens, HEADS, WIDTH, **like, requires_grad=True)
    k, v = (torch.randn(1, tokens, GROUPS, WIDTH, **like, requires_grad=True) for _ in range(2))
    gates = torch.rand(2, 1, tokens, HEADS, **like)
    return q, k, v, gates, torch.randn_like(q)


def nsa(q, k, v, gates):
    return parallel_nsa(q, k, v, g_cmp=gates[0], g_slc=gates[1], block_counts=CHOSEN, block_size=BLOCK)


def dense(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)


def check_against_dense():
    """Where every block is chosen and the compressed branch has no weight, NSA is dense causal attention."""
    q, k, v, gates, _ = inputs(CHOSEN * BLOCK)
    gates[0], gates[1] = 0, 1
    difference = (nsa(q, k, v, gates) - dense(q, k, v)).float()
    error = (difference.square().mean().sqrt() / dense(q, k, v).float().square().mean().sqrt()).item()
    if not error < 2e-2:
        sys.exit(f"error: with every block chosen FLA's NSA differs from dense attention by {error:.3g}")
    print(f"every block chosen against dense attention: relative difference {error:.1e}")


def stream_ms(work, repeats=30):
    flush = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    times = []
    for i in range(-2, repeats):
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        if i >= 0:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def main():
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, fla {fla_version}")
    check_against_dense()
    for tokens in [int(t) for t in sys.argv[1:]] or [8192, 32768]:
        q, k, v, gates, weights = inputs(tokens)
        print(f"T {tokens} G {GROUPS} heads {HEADS} d {WIDTH}, blocks of {BLOCK}, {CHOSEN} chosen, bf16")
        for name, operator in (("FLA nsa", lambda: nsa(q, k, v, gates)), ("dense", lambda: dense(q, k, v))):
            def forward():
                with torch.no_grad():
                    operator()

            def both():
                torch.autograd.grad(operator(), (q, k, v), weights)

            for part, work in (("forward", forward), ("forward+backward", both)):
                print(f"  {name:<8} {part:<17} stream {stream_ms(work):9.4f} ms  kernels {peer.kernels_ms(work, 10):9.4f} ms",
                      flush=True)


if __name__ == "__main__":
    main()

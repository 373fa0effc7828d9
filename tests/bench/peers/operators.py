#!/usr/bin/env python3
"""Operators of Assay by their best public kernels, for tests/bench/gpu_operators.sh; bench_operators times ours. Needs a
CUDA device, torch, triton and `pip install --no-deps liger-kernel fla-core einops packaging`; ssd also the source of
mamba_ssm on PYTHONPATH, whose CUDA extensions need not be built.

usage: operators.py [OPERATOR...]

  loss_head   product and cross entropy, forward and backward: torch.compile, and Liger's fused kernels
  delta_rule  FLA's gated delta rule
  nsa         FLA's NSA with its compressed and selected branch, compared with dense attention first
  rwkv6       FLA's RWKV-6
  ssd         FLA's simple_gla, forward: its backward is refused on Hopper, where Triton compiles it wrongly; and
              mamba_ssm's kernels with chunks of 256, which also multiply by the step sizes

Prints one line of JSON per form and pass, in ms: device_ms, the sum of the kernels' own times, mean of ten calls; user_ms,
by the host's clock, median of 30 means of ten calls that follow each other. extra_mib is memory beside inputs and results.
"""
import argparse
import importlib.util
import json
import statistics
import sys
import types

import peer
import torch
import torch.nn.functional as F


def extra_mib(work):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    results = work()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    del results
    return extra / 2**20


def report(operator, shape, form, part, work):
    for _ in range(3):
        work()
    line = {
        "operator": operator,
        "shape": shape,
        "side": "peer",
        "form": form,
        "pass": part,
        "device_ms": round(peer.kernels_ms(work, 10), 4),
        "user_ms": round(statistics.median(peer.timed(work, 30, 10)), 4),
        "extra_mib": round(extra_mib(work), 1),
    }
    print(json.dumps(line), flush=True)


def both_passes(operator, shape, form, call, inputs, grad):
    """`call` without and with gradients of `inputs`."""

    def forward():
        with torch.no_grad():
            return call()

    def both():
        return torch.autograd.grad(call(), inputs, grad)

    report(operator, shape, form, "forward", forward)
    report(operator, shape, form, "forward+backward", both)


def normal(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def loss_head():
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    tokens, width, vocabulary = 16384, 768, 50304
    x, head = normal(tokens, width).requires_grad_(), (normal(vocabulary, width) * 0.02).requires_grad_()
    targets = torch.randint(0, vocabulary, (tokens,), device="cuda")
    liger = LigerFusedLinearCrossEntropyLoss()

    @torch.compile(fullgraph=True, dynamic=False)
    def compiled(x, head, targets):
        return F.cross_entropy(F.linear(x, head).float(), targets)

    shape = f"N {tokens}, D {width}, V {vocabulary}, bf16"
    for form, call in (("compiled", lambda: compiled(x, head, targets)), ("liger", lambda: liger(head, x, targets))):
        report("loss_head", shape, form, "forward+backward", lambda: torch.autograd.grad(call(), (x, head)))


def delta_rule():
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    for rows, tokens, heads_k, heads, width in ((8, 2048, 12, 12, 64), (1, 8192, 16, 32, 128)):
        q, k = (F.normalize(normal(rows, tokens, heads_k, width), dim=-1).requires_grad_() for _ in range(2))
        v = normal(rows, tokens, heads, width).requires_grad_()
        g = F.logsigmoid(normal(rows, tokens, heads).float()).requires_grad_()
        beta = normal(rows, tokens, heads).sigmoid().requires_grad_()
        both_passes("delta_rule", f"{rows} x {tokens}, {heads_k}/{heads} heads, d {width}, bf16", "fla",
                    lambda: chunk_gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=False)[0],
                    (q, k, v, g, beta), normal(rows, tokens, heads, width))


def nsa():
    import fla_nsa

    fla_nsa.check_against_dense()
    for tokens in (8192, 32768):
        q, k, v, gates, weights = fla_nsa.inputs(tokens)
        both_passes("nsa", f"T {tokens}, {fla_nsa.HEADS} heads in {fla_nsa.GROUPS} group, d {fla_nsa.WIDTH}, "
                    f"{fla_nsa.CHOSEN} blocks of {fla_nsa.BLOCK}, bf16", "fla",
                    lambda: fla_nsa.nsa(q, k, v, gates), (q, k, v), weights)


# FLA tunes a kernel once, by the first shape.
SCANS = ((16, 2048, 12), (8, 2048, 12), (1, 32768, 12), (64, 64, 4))


def rwkv6():
    from fla.ops.rwkv6 import chunk_rwkv6

    for rows, tokens, heads in SCANS:
        r, k, v = (normal(rows, tokens, heads, 64).requires_grad_() for _ in range(3))
        w, u = (-torch.exp(normal(rows, tokens, heads, 64) - 3)).requires_grad_(), normal(heads, 64).requires_grad_()
        both_passes("rwkv6", f"{rows} x {tokens}, {heads} heads, d 64, bf16", "fla", lambda: chunk_rwkv6(r, k, v, w, u)[0],
                    (r, k, v, w, u), normal(rows, tokens, heads, 64))


def mamba_scan():
    """Of mamba_ssm's Triton kernels alone: its __init__ imports CUDA extensions too."""
    place = importlib.util.find_spec("mamba_ssm")
    if place is None:
        sys.exit("error: no module mamba_ssm, which ssd is compared with; unpack its source from PyPI on PYTHONPATH")
    package = types.ModuleType("mamba_ssm")
    package.__path__ = list(place.submodule_search_locations)
    sys.modules["mamba_ssm"] = package
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    return mamba_chunk_scan_combined


def ssd():
    from fla.ops.simple_gla import chunk_simple_gla

    scan = mamba_scan()
    for rows, tokens, heads in SCANS:
        shape = f"{rows} x {tokens}, {heads} heads, d 64, bf16"
        # c, b of every head: what heads share has to be expanded for it.
        c, b, x = (normal(rows, tokens, heads, 64) for _ in range(3))
        a = -torch.exp(normal(rows, tokens, heads).float() - 3)
        with torch.no_grad():
            report("ssd", shape, "fla", "forward", lambda: chunk_simple_gla(c, b, x, a)[0])
        c, b = (normal(rows, tokens, 1, 64).requires_grad_() for _ in range(2))
        step, decay = (-a).requires_grad_(), torch.full((heads,), -1.0, device="cuda", requires_grad=True)
        x = x.requires_grad_()
        both_passes("ssd", shape, "mamba_ssm", lambda: scan(x, step, decay, b, c, 256), (x, step, decay, b, c),
                    normal(rows, tokens, heads, 64))


OPERATORS = {"delta_rule": delta_rule, "loss_head": loss_head, "nsa": nsa, "rwkv6": rwkv6, "ssd": ssd}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    names = parser.parse_args().operators or list(OPERATORS)
    for name in names:
        if name not in OPERATORS:
            parser.error(f"no operator {name}; there are {', '.join(OPERATORS)}")
    peer.needs_device("operators.py")
    torch.manual_seed(1)
    for name in names:
        OPERATORS[name]()


if __name__ == "__main__":
    main()

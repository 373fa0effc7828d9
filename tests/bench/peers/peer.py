"""What the peers of tests/bench/gpu.sh share: a training step in PyTorch (bf16 autocast, gradient clipping, fused AdamW, no
EMA, on random tokens that stay the same), its capture as one CUDA graph, its timing, and one line of JSON per level:
parameters, median step in ms with the fastest and slowest of seven means of six steps, tokens per second, peak memory in
GiB, the sum of the kernels' own times in ms, and the loss of the last step. operators.py uses the clocks.
"""
import argparse
import gc
import json
import math
import statistics
import sys
import time
from typing import Callable, NamedTuple

import torch
import torch.nn as nn

REPEATS, STEPS, WARM_UP = 7, 6, 8


class Level(NamedTuple):
    build: Callable  # tokens of a row -> (model, function of ids and targets that returns the loss)
    captured: bool = False  # the whole step, optimizer included, as one CUDA graph


def kernels_ms(work, calls=1):
    """Sum of the kernels' own times, of one call."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(calls):
            work()
        torch.cuda.synchronize()
    return sum(event.device_time for event in record.events() if "CUDA" in str(event.device_type)) / 1e3 / calls


def needs_device(program):
    if not torch.cuda.is_available():
        sys.exit(f"error: PyTorch {torch.__version__} sees no CUDA device, which {program} times")


def timed(work, repeats=REPEATS, calls=STEPS):
    """Means of calls that follow each other, in ms by the host's clock, until the last one's kernels have ended."""
    means = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        torch.cuda.synchronize()
        means.append((time.perf_counter() - begin) / calls * 1e3)
    return means


def training_step(model, forward, batch, captured):
    """Returns one step that also clears gradients, and the optimizer and the bare step that a graph captures."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True, capturable=captured)

    def bare():
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=not captured):
            loss = forward(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        return bare()

    return step, optimizer, bare


def warm(step, vocabulary):
    """On a stream of its own, as a capture wants. Refuses a model whose first loss is not that of a guess."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        first = step().item()
        for _ in range(WARM_UP - 1):
            step()
    torch.cuda.current_stream().wait_stream(side)
    if not abs(first - math.log(vocabulary)) < 1:
        sys.exit(f"error: the first loss is {first:.2f}, and ln {vocabulary} is {math.log(vocabulary):.2f}")


def capture(optimizer, bare):
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = bare()

    def replay():
        graph.replay()
        return loss

    for _ in range(3):
        replay()
    return replay


def run(peer, name, level, vocabulary, rows, tokens):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, forward = level.build(tokens)
    model.cuda()
    batch = [torch.randint(0, vocabulary, (rows, tokens), device="cuda") for _ in range(2)]
    step, optimizer, bare = training_step(model, forward, batch, level.captured)
    warm(step, vocabulary)
    torch.cuda.reset_peak_memory_stats()
    if level.captured:
        step = capture(optimizer, bare)
    means = timed(step)
    step_ms = statistics.median(means)
    return {
        "peer": peer,
        "level": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "rows": rows,
        "tokens": tokens,
        "step_ms": round(step_ms, 2),
        "fastest_ms": round(min(means), 2),
        "slowest_ms": round(max(means), 2),
        "tokens_per_s": round(rows * tokens / step_ms * 1e3),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        "kernels_ms": round(kernels_ms(step), 2),
        "loss": round(step().item(), 4),
    }


def main(doc, peer, levels, vocabulary, rows, tokens):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levels", nargs="*", metavar="LEVEL")
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--seq", type=int, default=tokens)
    options = parser.parse_args()
    for name in options.levels:
        if name not in levels:
            parser.error(f"no level {name}; there are {', '.join(levels)}")
    needs_device(f"{peer}.py")
    torch.set_float32_matmul_precision("high")
    failed = 0
    for name in options.levels or levels:
        try:
            print(json.dumps(run(peer, name, levels[name], vocabulary, options.rows, options.seq)), flush=True)
        except RuntimeError as error:  # one level that a version cannot run does not hide the others
            print(f"error: {name}: {str(error)[:600]}", file=sys.stderr, flush=True)
            failed = 1
        gc.collect()
        torch.cuda.empty_cache()
    sys.exit(failed)

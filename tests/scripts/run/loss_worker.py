#!/usr/bin/env python3
"""Speaks the engine's part of loss launches to a worker (docs/protocol.md). Reads BIN and CORPUS.

    loss_worker.py mean     the same four steps as four visits and as one: is the latter's loss the mean of the former's?
    loss_worker.py broken   a learning rate that breaks both variants, the level visited first: prints who is retired
"""
import json
import os
import subprocess
import sys


def launch(visit_steps: int, rounds: int, **keys) -> list:
    """The worker's answers to a launch of two variants, from the first round on."""
    config = dict(preset="tiny", threads=1, seq_len=64, batch_rows=1, data=os.environ["CORPUS"], seed=5, **keys)
    variants = [dict(name=name, level=name, role=role, config=dict(config, attention=name))
                for name, role in (("mask_dense", "reference"), ("varlen", "level"))]
    requests = [dict(op="launch", kind="loss", seed=1, unit="train_step", optimization="varlen",
                     visit_steps=visit_steps, discard_steps=0, variants=variants)]
    requests += [dict(op="round", round=number, order=[1, 0]) for number in range(rounds)] + [dict(op="finish")]
    done = subprocess.run(["bash", "-c", os.environ["BIN"] + "/assay-worker engine 3>&1"], check=True, text=True,
                          input="".join(json.dumps(request) + "\n" for request in requests), stdout=subprocess.PIPE)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [event for event in events if event["event"] in ("round", "retired")]


def losses(**how) -> list:
    return [visit["loss"] for event in launch(**how) for visit in event["visits"] if visit["variant"] == 0]


if sys.argv[1] == "mean":
    single, [together] = losses(visit_steps=1, rounds=4), losses(visit_steps=4, rounds=1)
    print("apart", max(single) - min(single) > 0.01, "mean", abs(sum(single) / 4 - together) < 1e-6)
else:
    print(json.dumps(launch(visit_steps=4, rounds=1, lr=1e30, grad_clip=0.0, warmup_steps=0)))

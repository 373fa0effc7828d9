#!/usr/bin/env python3
"""How long a trainer takes to its first step at full speed: a worker process is started as `assay run` does, and its
steps are asked for one by one (docs/protocol.md).

usage: first_step.py RESULTS CELL [--worker build/bin/assay-worker] [--steps 16] [--times 3]
  RESULTS, CELL   what `assay run` measured: the configuration of the cell's reference is taken

Prints per start: seconds from the start of the process to its "built" message, from there to the end of the first step
at full speed (at most 1.1 times the median of the last half of the steps), and both together, as one line of JSON.
"""
import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import time


class Worker:
    def __init__(self, program):
        events, writer = os.pipe()
        script = 'exec 3>&"$1"; shift; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "worker", str(writer), program, "engine"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[writer], text=True)
        os.close(writer)
        self.events = os.fdopen(events)

    def ask(self, expected, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        for line in self.events:
            answer = json.loads(line)
            if answer["event"] == expected:
                return answer
            if answer["event"] != "progress":
                sys.exit(f"error: the worker answered {line.strip()}")
        sys.exit(f"error: the worker ended: {self.process.stderr.read()[-400:]}")


def configuration(results, cell):
    ledger = pathlib.Path(results) / "ledger.sqlite"
    if not ledger.exists():
        sys.exit(f"error: {ledger} does not exist; name a directory of `assay run`")
    row = sqlite3.connect(f"file:{ledger}?mode=ro", uri=True).execute(
        "SELECT v.config_json FROM variant v JOIN cell c ON c.id = v.cell WHERE c.name = ? AND v.role = 'reference'",
        (cell,)).fetchone()
    return json.loads(row[0]) if row else sys.exit(f"error: {ledger} has no cell {cell}")


def one_start(program, config, steps):
    begin = time.monotonic()
    worker = Worker(program)
    worker.ask("hello", op="hello", protocol=4)
    variant = {"name": "step", "level": "step", "role": "reference", "config": config}
    worker.ask("built", op="launch", kind="timed", seed=1, unit="train_step", optimization="step", expect="statistical",
               visit_steps=1, discard_steps=0, variants=[variant])
    built = time.monotonic()
    ends, times = [], []
    for step in range(steps):
        visit = worker.ask("round", op="round", round=step, order=[0])["visits"][0]
        ends.append(time.monotonic() - built)
        times.append(visit["wall_ns"] / 1e6)
    worker.ask("bye", op="finish")
    worker.process.wait()
    full = statistics.median(times[steps // 2:])
    first = next(i for i, ms in enumerate(times) if ms <= 1.1 * full)
    return {"built_s": round(built - begin, 2), "to_full_speed_s": round(ends[first], 2),
            "start_to_full_speed_s": round(built - begin + ends[first], 2), "step": first + 1,
            "step_ms": round(full, 2), "first_steps_ms": [round(ms, 1) for ms in times[:first + 1]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("cell")
    parser.add_argument("--worker", default="build/bin/assay-worker")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    config = configuration(options.results, options.cell)
    for _ in range(options.times):
        print(json.dumps(one_start(options.worker, config, options.steps)), flush=True)


if __name__ == "__main__":
    main()

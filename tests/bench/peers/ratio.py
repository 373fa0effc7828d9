#!/usr/bin/env python3
"""Table and ratio of the turns that tests/bench/gpu.sh left in a directory: ratio.py OUT"""
import json
import pathlib
import statistics
import sys

out = pathlib.Path(sys.argv[1])
best = {"assay": [], "peer": []}
first = next(json.loads(line) for line in (out / "peer-2.json").read_text().splitlines() if line.startswith("{"))
print(f"Assay against {first['peer']}.py, {first['rows']} rows of {first['tokens']} tokens")
print(f"{'turn':<5} {'what':<28} {'step ms':>8} {'K tokens/s':>11}  notes")
for turn, side in ((1, "assay"), (2, "peer"), (3, "peer"), (4, "assay")):
    text = (out / f"{side}-{turn}.json").read_text()
    if side == "assay":
        rows = json.loads(text)["rows"]
        step, speed, clock, power = (
            statistics.median(row[key] for row in rows) for key in ("step_ms", "tokens_per_s", "sm_clock_mhz", "power_w"))
        print(f"{turn:<5} {'Assay, EMA included':<28} {step:8.2f} {speed / 1e3:11.1f}  {clock:.0f} MHz, {power:.0f} W")
        best["assay"].append(speed)
        continue
    levels = [json.loads(line) for line in text.splitlines() if line.startswith("{")]  # libraries print between them
    for level in levels:
        print(f"{turn:<5} {'peer, ' + level['level']:<28} {level['step_ms']:8.2f} {level['tokens_per_s'] / 1e3:11.1f}  "
              f"[{level['fastest_ms']}, {level['slowest_ms']}] ms, kernels {level['kernels_ms']} ms, "
              f"{level['peak_gib']} GiB, {level['parameters'] / 1e6:.1f} M parameters")
    best["peer"].append(max(level["tokens_per_s"] for level in levels))
ratios = [ours / theirs for ours, theirs in zip(best["assay"], best["peer"])]
print(f"ratio to the peer's best level: {statistics.mean(ratios):.3f} (turns 1 and 2: {ratios[0]:.3f}, 4 and 3: {ratios[1]:.3f})")

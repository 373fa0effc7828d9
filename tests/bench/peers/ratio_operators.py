#!/usr/bin/env python3
"""Table of the turns that tests/bench/gpu_operators.sh left in a directory: ratio_operators.py OUT

Times are means of the two turns of a side. Ratios are the peer's time over that of Assay's fastest form: above 1 Assay is
faster.
"""
import json
import pathlib
import statistics
import sys

FIGURES = ("device_ms", "user_ms", "extra_mib")


def lines(out):
    for turn, side in ((1, "assay"), (2, "peer"), (3, "peer"), (4, "assay")):
        name = f"{side}-{turn}.json"
        for text in (out / name).read_text().splitlines():
            if text.startswith("{"):  # libraries print between them
                yield json.loads(text)


def main():
    cases = {}  # (operator, shape, pass) -> side -> form -> its lines
    for line in lines(pathlib.Path(sys.argv[1])):
        sides = cases.setdefault((line["operator"], line["shape"], line["pass"]), {"assay": {}, "peer": {}})
        sides[line["side"]].setdefault(line["form"], []).append(line)
    print(f"{'side':<6} {'form':<10} {'device ms':>10} {'user ms':>10} {'extra MiB':>10}  ratio on the device, as called")
    for (operator, shape, part), sides in cases.items():
        print(f"{operator}, {part}: {shape}")
        for side, forms in sides.items():
            if not forms:
                sys.exit(f"error: {operator}, {part}, {shape} has no line of side {side}; both programs must time it")
        means = {(side, form): [statistics.mean(line[figure] for line in turns) for figure in FIGURES]
                 for side, forms in sides.items() for form, turns in forms.items()}
        ours = [min(values) for values in zip(*(m[:2] for (side, _), m in means.items() if side == "assay"))]
        for (side, form), (device, user, extra) in means.items():
            ratio = f"  {device / ours[0]:.2f}, {user / ours[1]:.2f}" if side == "peer" else ""
            print(f"{side:<6} {form:<10} {device:10.4f} {user:10.4f} {extra:10.1f}{ratio}")


if __name__ == "__main__":
    main()

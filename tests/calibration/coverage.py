#!/usr/bin/env python3
"""Coverage of the calibration runs, from their report.json files.

    coverage.py --one REPORT      one line for one run
    coverage.py REPORT…           the table of all runs and the two counts; exit 1 if either is below 85 %
"""
import json
import math
import sys

PLANTED = math.log(1.05)  # ln(time ratio) of a busy wait of 5 % of the step


def intervals(path):
    with open(path) as file:
        cell = json.load(file)["cells"][0]
    planted = cell["comparisons"][0]["effect"]["time"]["interval_95"]
    control = cell["control"]["effect"]["time"]["interval_95"]
    return control, planted


def covers(interval, value):
    return interval[0] <= value <= interval[1]


def percent(interval):
    return "[%+6.2f, %+6.2f] %%" % tuple(math.expm1(edge) * 100 for edge in interval)


def line(path):
    control, planted = intervals(path)
    return "%s  A/A %s %-5s  planted 5 %% %s %-5s" % (
        path, percent(control), "" if covers(control, 0) else "MISS", percent(planted), "" if covers(planted, PLANTED) else "MISS")


if sys.argv[1] == "--one":
    print(line(sys.argv[2]))
    sys.exit(0)
paths = sys.argv[1:]
print("\n".join(line(path) for path in paths))
aa = sum(covers(intervals(path)[0], 0) for path in paths)
planted = sum(covers(intervals(path)[1], PLANTED) for path in paths)
print("A/A interval covers 0 in %d of %d; planted interval covers 5 %% in %d of %d" % (aa, len(paths), planted, len(paths)))
needed = 0.85 * len(paths)
sys.exit(0 if aa >= needed and planted >= needed else 1)

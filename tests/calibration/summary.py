#!/usr/bin/env python3
"""Counts of the calibration runs, from their reports (assay report --json).

    summary.py --one REPORT      one line for one run
    summary.py REPORT…           tables of all runs: verdicts, the same runs judged with all pairs, the mean effect of all
                                 launches with its interval

What a planted wait really did to each launch stands in its ledger (metric planted/log_ratio): a system that interrupts the
wait makes it longer than the 2 % asked for. An estimate is held against that.

Of detections (LEAST_FOUND) counts the runs that found what was planted, and the seconds that they took.

Exit 1 when, of the valid runs of a kind, the 95 % interval covers the truth so seldom, or an A/A run gets a verdict so
often, that a correct engine does so in less than 1 of 1000 calibrations, when the 99 % interval of the mean of all
launch effects less what was planted in them does not contain 0, or when fewer than nine of ten runs are valid.
"""
import collections
import datetime
import json
import math
import pathlib
import sqlite3
import sys

LEAST_VALID = 0.9
NOTHING_PLANTED = ("aa", "turns")
LEAST_FOUND = {"detect1": 0.85, "detect2": 0.95}  # of all runs, the share that has to end as SLOWER
MOST_SECONDS = 360  # of one of these
SCHEMA = 5  # of report.json
PLANTED = ("SELECT metric.launch, metric.value FROM metric JOIN variant ON variant.id = metric.variant "
           "WHERE metric.path = 'planted/log_ratio' AND variant.name = ?")


def kind_of(path):
    return pathlib.Path(path).name.split("-")[0]


class Run:
    def __init__(self, path):
        with open(path) as file:
            report = json.load(file)
        if report["schema_version"] != SCHEMA:
            sys.exit("%s: report.json of schema %s, not %s: write it again with `assay report`"
                     % (path, report["schema_version"], SCHEMA))
        cell = report["cells"][0]
        comparison = cell["comparisons"][0]
        self.path, self.kind = path, kind_of(path)
        self.validity = comparison["verdict"]["validity"]
        self.speed = comparison["verdict"]["speed"]
        self.effect, self.all_pairs = comparison["effect"], comparison["effect_all_pairs"]
        self.excluded = comparison["pairs"]["excluded"]
        self.pairs = comparison["pairs"]["total"]
        self.truths = self.planted(comparison["candidate"]) if self.kind not in NOTHING_PLANTED else {}  # ln(time ratio) by launch
        launches = [launch["launch_id"] for launch in self.effect["launches"]] if self.effect else []
        self.truth = math.fsum(self.truth_of(launch) for launch in launches) / max(1, len(launches))
        times = [datetime.datetime.fromisoformat(launch[key].replace("Z", "+00:00"))
                 for launch in report["launches"] for key in ("started_utc", "ended_utc") if launch[key]]
        self.seconds = (max(times) - min(times)).total_seconds() if times else 0
        self.control = (cell.get("control") or {}).get("effect")

    def planted(self, variant):
        with sqlite3.connect("file:%s?mode=ro" % pathlib.Path(self.path).with_suffix("").joinpath("ledger.sqlite"), uri=True) as ledger:
            return dict(ledger.execute(PLANTED, (variant,)))

    def truth_of(self, launch):
        return 0.0 if self.kind in NOTHING_PLANTED else self.truths[launch]

    def valid(self):
        return self.validity == "OK" and self.effect is not None

    def interval(self):
        return self.effect["time"]["interval_95"] if self.effect else None


def covers(interval, value):
    return interval is not None and interval[0] <= value <= interval[1]


def percent(value):
    return "%+.2f" % (math.expm1(value) * 100)


def decided(effect):
    """The verdict of an effect by its judged interval alone."""
    if effect is None or effect["time"]["interval_judged"] is None:
        return "no interval"
    low, high = effect["time"]["interval_judged"]
    return "SLOWER" if low > 0 else "FASTER" if high < 0 else "not decided"


def line(run):
    interval = run.interval()
    text = "no interval" if interval is None else "[%s, %s] %%" % tuple(percent(edge) for edge in interval)
    return "%-34s %-10s %-13s %s%s, %d of %d pairs excluded" % (
        run.path, run.validity, run.speed, text, " MISS" if interval is not None and not covers(interval, run.truth) else "", run.excluded, run.pairs)


def least_plausible(n, chance):
    """The smallest count of n at this chance that is not in the lower tail of 1 in 1000."""
    total = 0.0
    for count in range(n + 1):
        total += math.comb(n, count) * chance**count * (1 - chance) ** (n - count)
        if total > 0.001:
            return count
    return n


def counts(values):
    return ", ".join("%d %s" % (n, name) for name, n in sorted(collections.Counter(values).items())) or "none"


def mean_of(values, wanted):
    """A mean in percent, its 99 % interval, and whether that contains what is wanted."""
    if len(values) < 2:
        return "%d launches: no mean" % len(values), True
    mean = math.fsum(values) / len(values)
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    low, high = mean - 2.576 * error, mean + 2.576 * error
    ok = low <= wanted <= high
    return "%s %% [%s, %s] (99 %%) of %d launches%s" % (
        percent(mean), percent(low), percent(high), len(values), "" if ok else ": does NOT contain %s %%" % percent(wanted)), ok


def summary(kind, runs):
    valid = [run for run in runs if run.valid()]
    print("\n%s: %d runs, planted on average %s %%" % (
        kind, len(runs), percent(math.fsum(run.truth for run in runs) / max(1, len(runs)))))
    print("  validity            " + counts(run.validity for run in runs))
    print("  verdicts (valid)    " + counts(run.speed for run in valid))
    print("  judged, all pairs   " + counts(decided(run.all_pairs or run.effect) for run in runs))
    covered = sum(covers(run.interval(), run.truth) for run in valid)
    print("  95 %% interval covers the truth in %d of %d valid runs" % (covered, len(valid)))
    controls = [run.control["time"]["interval_95"] for run in runs if run.control]
    print("  95 %% interval of the control covers 0 in %d of %d" % (sum(covers(c, 0) for c in controls), len(controls)))
    effects = [(run, launch) for run in runs if run.effect for launch in run.effect["launches"]]
    print("  mean launch effect  " + mean_of([launch["log_ratio"] for _, launch in effects], 0)[0].split(":")[0])
    text, contains = mean_of([launch["log_ratio"] - run.truth_of(launch["launch_id"]) for run, launch in effects], 0)
    print("  less the planted    " + text)
    print("  less, all pairs     " + mean_of(
        [launch["log_ratio"] - run.truth_of(launch["launch_id"])
         for run in runs if run.effect for launch in (run.all_pairs or run.effect)["launches"]], 0)[0])
    ok = contains and covered >= least_plausible(len(valid), 0.95)
    if len(valid) < LEAST_VALID * len(runs):
        print("  too few valid runs to judge: is the machine quiet?")
        ok = False
    if kind in LEAST_FOUND:
        found = sum(run.speed == "SLOWER" for run in valid)
        longest = max(run.seconds for run in runs)
        print("  found in %d of %d runs, the longest of %.0f s" % (found, len(runs), longest))
        ok = found >= LEAST_FOUND[kind] * len(runs) and longest <= MOST_SECONDS
    if kind in NOTHING_PLANTED:
        undecided = sum(run.speed not in ("FASTER", "SLOWER") for run in valid)
        ok = ok and undecided >= least_plausible(len(valid), 0.95)
    print("  " + ("as it should be" if ok else "NOT as it should be"))
    return ok


if sys.argv[1] == "--one":
    print(line(Run(sys.argv[2])), flush=True)
    sys.exit(0)
all_runs = [Run(path) for path in sys.argv[1:]]
print("\n".join(line(run) for run in all_runs))
kinds = dict.fromkeys(run.kind for run in all_runs)
good = [summary(kind, [run for run in all_runs if run.kind == kind]) for kind in kinds]
sys.exit(0 if all(good) else 1)

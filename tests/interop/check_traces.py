#!/usr/bin/env python3
"""Loads traces in HolisticTraceAnalysis (through `assay export`) and in nsys-ai (the SQLite file as it is), and compares
what they find with our own tables: idle, compute and non-compute times within 2 %, sums by name equal.

usage: check_traces.py ASSAY SCRATCH_DIR TRACE...
"""
import collections
import gzip
import json
import logging
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time
import warnings

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # HTA would round to whole microseconds
logging.disable(logging.WARNING)
warnings.filterwarnings("ignore")

import duckdb  # noqa: E402
import nsys_ai.profile  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402


def no_duckdb(*_, **__):
    raise duckdb.IOException("nsys-ai reads the SQLite file itself in this test")


# nsys-ai would first try to download an extension of DuckDB, whose failure takes 10 s, and then read with sqlite3.
duckdb.connect = no_duckdb

SHARE = 0.02  # allowed between HTA's breakdown and ours
DEVICE_TABLES = ("KERNEL", "MEMCPY", "MEMSET")


class Checks:
    """Counts comparisons and prints those that fail."""

    def __init__(self, trace: pathlib.Path):
        self.trace, self.made, self.failed = trace, 0, 0

    def that(self, good: bool, what: str) -> None:
        self.made += 1
        if not good:
            self.failed += 1
            print(f"FAILED {self.trace.name}: {what}")

    def near(self, theirs: float, ours: float, share: float, what: str) -> None:
        allowed = max(share * abs(ours), 0.5)  # never stricter than half a nanosecond of rounding
        self.that(abs(theirs - ours) <= allowed, f"{what}: they find {theirs:.1f} ns, we {ours:.1f} ns")

    def same_sums(self, theirs: dict, ours: dict, what: str) -> None:
        """Both: name -> (ns, count)."""
        self.that(bool(ours), f"{what}: our table is empty")
        self.that(theirs.keys() == ours.keys(), f"{what}: names differ: {sorted(theirs.keys() ^ ours.keys())[:4]}")
        for name in theirs.keys() & ours.keys():
            self.near(theirs[name][0], ours[name][0], 0, f"{what}, {name}")
            self.that(theirs[name][1] == ours[name][1], f"{what}, {name}: {theirs[name][1]} times, we say {ours[name][1]}")


def named_query(assay: str, trace: pathlib.Path, query: str, name: str) -> dict:
    """`assay sql --name`: name -> (ns, count), rows of one name added up."""
    done = subprocess.run([assay, "sql", str(trace), "--name", query, "--json"], check=True, capture_output=True, text=True)
    sums = collections.defaultdict(lambda: (0, 0))
    for row in json.loads(done.stdout)["rows"]:
        ns, count = sums[row[name]]
        sums[row[name]] = (ns + row["Total Time (ns)"], count + row["Instances" if "Instances" in row else "Num Calls"])
    return dict(sums)


def union(intervals: list) -> int:
    total, until = 0, None
    for start, end in sorted(intervals):
        begin = start if until is None else max(start, until)
        if end > begin:
            total += end - begin
        until = end if until is None else max(until, end)
    return total


def our_breakdown(db: sqlite3.Connection) -> tuple:
    """Idle, compute and non-compute time as HTA defines them, from the tables: between the first and the last piece of
    work of the steps, compute is every kernel but NCCL's. HTA keeps the work of calls up to the last step's end."""
    last = db.execute("SELECT max(end) FROM ASSAY_STEP").fetchone()[0]
    beyond = db.execute("SELECT min(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE start > ?", (last,)).fetchone()[0]
    condition = "start <> 0" if beyond is None else f"start <> 0 AND correlationId < {beyond}"
    work, compute = [], []
    for table in DEVICE_TABLES:
        name = "demangledName" if table == "KERNEL" else "NULL"
        for start, end, text in db.execute(
                f"SELECT start, end, (SELECT value FROM StringIds WHERE id = {name}) FROM CUPTI_ACTIVITY_KIND_{table} WHERE {condition}"):
            work.append((start, end))
            if text is not None and "nccl" not in text.lower():
                compute.append((start, end))
    total = max(end for _, end in work) - min(start for start, _ in work)
    busy, computing = union(work), union(compute)
    return total - busy, computing, busy - computing


def check_document(checks: Checks, path: pathlib.Path) -> None:
    """What every viewer needs: slices of a track nest, arrows have two ends, names are labelled."""
    document = json.load(gzip.open(path))
    tracks, arrows, labelled = collections.defaultdict(list), collections.Counter(), set()
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            tracks[event["pid"], event["tid"]].append((start, -(start + round(event["dur"] * 1000))))
        elif event["ph"] in "sf":
            arrows[event["cat"], event["id"], event["ph"]] += 1
        elif event["ph"] == "M" and event["name"] == "process_name":
            labelled.add(event["pid"])
    crossing = 0
    for slices in tracks.values():
        open_until = []
        for start, negative_end in sorted(slices):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            crossing += bool(open_until) and -negative_end > open_until[-1]
            open_until.append(-negative_end)
    checks.that(crossing == 0, f"{crossing} slices cross others of their track")
    lonely = [key for key, n in arrows.items() if n != 1 or arrows[key[0], key[1], "f" if key[2] == "s" else "s"] != 1]
    checks.that(not lonely, f"{len(lonely)} arrows without two ends, such as {lonely[:2]}")
    checks.that({pid for pid, _ in tracks} <= labelled, "a process has no name")


def check_hta(checks: Checks, assay: str, trace: pathlib.Path, scratch: pathlib.Path, db: sqlite3.Connection) -> None:
    path = scratch / "trace.json.gz"
    subprocess.run([assay, "export", str(trace), "-o", str(path)], check=True, stdout=subprocess.DEVNULL)
    check_document(checks, path)
    steps = db.execute("SELECT count(*) FROM ASSAY_STEP WHERE start <> 0").fetchone()[0]
    analysis = TraceAnalysis(trace_files={0: str(path)}, include_last_profiler_step=True)
    found = [i for i in analysis.t.get_iterations(0) if i >= 0]
    checks.that(len(found) == steps, f"HTA finds {len(found)} iterations, the trace has {steps} steps")
    if db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0] == 0:
        return
    theirs = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    for ours, column in zip(our_breakdown(db), ("idle_time(us)", "compute_time(us)", "non_compute_time(us)")):
        checks.near(1000 * theirs[column], ours, SHARE, f"HTA {column}")
    frame = analysis.t.get_trace(0)
    names = analysis.t.symbol_table.get_sym_table()
    kernels = frame[frame["cat"].map(lambda c: names[c]) == "kernel"]
    sums = collections.defaultdict(lambda: (0, 0))
    for symbol, duration in zip(kernels["name"], kernels["dur"]):
        ns, count = sums[names[symbol]]
        sums[names[symbol]] = (ns + round(1000 * duration), count + 1)
    checks.same_sums(dict(sums), named_query(assay, trace, "cuda_gpu_kern_sum", "Name"), "HTA kernels")


def check_nsys_ai(checks: Checks, assay: str, trace: pathlib.Path, scratch: pathlib.Path) -> None:
    copy = scratch / "profile.sqlite"  # nsys-ai adds indexes to what it reads
    shutil.copy(trace, copy)
    os.chmod(copy, 0o644)
    with nsys_ai.profile.open(str(copy), backend="sqlite", cache_mode="direct") as profile:
        kernels = collections.defaultdict(lambda: (0, 0))
        for row in profile.aggregate_kernels(None):
            ns, count = kernels[row["demangled"]]
            kernels[row["demangled"]] = (ns + row["total_ns"], count + row["count"])
        ranges = {row["text"]: (row["total_ns"], row["count"]) for row in profile.aggregate_nvtx_ranges()}
    ours = collections.defaultdict(lambda: (0, 0))  # without the domain
    for name, (ns, count) in named_query(assay, trace, "nvtx_sum", "Range").items():
        text = name.split(":", 1)[1]
        ours[text] = (ours[text][0] + ns, ours[text][1] + count)
    checks.same_sums(ranges, dict(ours), "nsys-ai NVTX ranges")
    if kernels:
        checks.same_sums(dict(kernels), named_query(assay, trace, "cuda_gpu_kern_sum", "Name"), "nsys-ai kernels")


def check_documented_columns(checks: Checks, assay: str, trace: pathlib.Path, db: sqlite3.Connection) -> None:
    """The CUDA API summary as NVIDIA's documentation of the export schema writes it."""
    rows = db.execute("""
        SELECT value AS name, SUM(end - start) AS total, COUNT(*) AS calls
        FROM CUPTI_ACTIVITY_KIND_RUNTIME AS runtime JOIN StringIds ON StringIds.id = runtime.nameId
        GROUP BY nameId""").fetchall()
    if rows:
        checks.same_sums({name: (ns, calls) for name, ns, calls in rows}, named_query(assay, trace, "cuda_api_sum", "Name"), "CUDA API")


def check(assay: str, trace: pathlib.Path, scratch: pathlib.Path) -> bool:
    began = time.monotonic()
    checks = Checks(trace)
    scratch.mkdir()
    with sqlite3.connect(f"file:{trace}?immutable=1", uri=True) as db:
        check_hta(checks, assay, trace, scratch, db)
        check_documented_columns(checks, assay, trace, db)
    check_nsys_ai(checks, assay, trace, scratch)
    shutil.rmtree(scratch)
    print(f"{trace}: {checks.made} comparisons, {checks.failed} failed, {time.monotonic() - began:.1f} s")
    return checks.failed == 0


def main() -> int:
    assay, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
    good = [check(assay, pathlib.Path(trace), scratch / f"check-{i}") for i, trace in enumerate(sys.argv[3:])]
    return 0 if good and all(good) else 1


sys.exit(main())

#!/usr/bin/env python3
"""Runs a matrix, sends SIGNAL to a rank in the middle of the first timed launch's rounds, and prints what became of it:
how long the launch then took to end, its row, and the processes left behind.

usage: rank_fault.py SIGNAL RANK ASSAY_BINARY MATRIX DATA RESULTS
"""
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

LEFT_BEHIND_S = 5  # after the signal, a process that is still there counts as left behind


def children(pid: int) -> list:
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def query(results: str, sql: str) -> list:
    try:
        with sqlite3.connect(f"file:{results}/ledger.sqlite?mode=ro", uri=True) as ledger:
            return ledger.execute(sql).fetchall()
    except sqlite3.OperationalError:  # not there yet
        return []


def wait(what: str, condition, seconds: float):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    sys.exit(f"waited {seconds} s in vain for {what}")


def main() -> None:
    name, rank, assay, matrix, data, results = sys.argv[1:]
    engine = subprocess.Popen([assay, "run", matrix, "--data", data, "--out", results, "--quiet"])
    timed = "select l.id from launch l join visit v on v.launch = l.id where kind = 'timed' and round >= 5 limit 1"
    launch = wait("the rounds of a timed launch", lambda: query(results, timed), 60)[0][0]
    worker = children(engine.pid)[0]
    ranks = [worker] + children(worker)
    os.kill(ranks[int(rank)], getattr(signal, name))
    begin = time.monotonic()
    ended = f"select state, reason from launch where id = {launch} and state != 'running'"
    state, reason = wait("the end of the launch", lambda: query(results, ended), 100)[0]
    seconds = time.monotonic() - begin
    engine.terminate()
    engine.wait()
    deadline = begin + LEFT_BEHIND_S
    while (left := [pid for pid in ranks if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)  # a killed process takes a moment to give its memory back
    print(f"ranks {len(ranks)}, launch {state} after {seconds:.1f} s, left behind: {left}\nreason: {reason}")


main()

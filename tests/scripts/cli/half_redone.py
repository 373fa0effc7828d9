"""Makes a directory of `assay demo` look as in the middle of `assay run --redo varlen`, and holds its lock while CMD runs.

One of five launches is measured again, the second is in round 7. usage: half_redone.py DIR CMD
"""
import fcntl
import json
import pathlib
import sqlite3
import subprocess
import sys

directory, command = pathlib.Path(sys.argv[1]), sys.argv[2]
with sqlite3.connect(directory / "ledger.sqlite") as ledger:
    cell = ledger.execute("SELECT id FROM cell WHERE name = 'varlen'").fetchone()[0]
    asked = [row[0] for row in ledger.execute("SELECT id FROM launch WHERE cell = ? AND kind = 'timed' ORDER BY position", [cell])]
    for launch in asked:
        ledger.execute("INSERT INTO event(launch, round, utc, kind, detail, cause) VALUES (?, -1, '2026-11-22T00:00:00Z', 'redo', '', 'asked')", [launch])
    columns = [row[1] for row in ledger.execute("PRAGMA table_info(launch)")]
    for launch, state in zip(asked, ("complete", "running")):
        row = dict(zip(columns, ledger.execute("SELECT * FROM launch WHERE id = ?", [launch]).fetchone()))
        new = ledger.execute("SELECT max(id) + 1 FROM launch").fetchone()[0]
        row.update(id=new, attempt=1, state=state, repeats=launch, started_utc="2026-11-22T00:00:01Z", ended_utc="", rounds_planned=200)
        ledger.execute(f"INSERT INTO launch({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
        of_launch = "launch = ? AND warmup = 0" + (" AND round < 7" if state == "running" else "")
        fields = [name for name in (c[1] for c in ledger.execute("PRAGMA table_info(visit)")) if name not in ("id", "launch")]
        ledger.execute(f"INSERT INTO visit(launch, {', '.join(fields)}) SELECT {new}, {', '.join(fields)} FROM visit WHERE {of_launch}", [launch])
with open(directory / "ledger.lock", "w", encoding="utf-8") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.write(json.dumps({"pid": 7, "command": "assay run m.toml --redo varlen", "host": "here"}))
    lock.flush()
    sys.exit(subprocess.run(["bash", "-c", command], check=False).returncode)

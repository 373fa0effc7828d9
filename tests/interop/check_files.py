#!/usr/bin/env python3
"""Files that other programs write, as `assay` reads them: the same documents as Parquet (pyarrow) and as JSONL train to
the same losses, and a model that PyTorch compiled ahead of time evaluates to the same loss as the trainer's own.

usage: check_files.py ASSAY SCRATCH_DIR SOURCE_DIR
"""
import json
import pathlib
import random
import subprocess
import sys
import time

import pyarrow
import pyarrow.parquet

assay, scratch, source = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])


def run(*command):
    done = subprocess.run([str(part) for part in command], cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_parquet():
    drawn = random.Random(5)
    texts = [" ".join(str(drawn.randrange(900)) for _ in range(drawn.randrange(1, 300))) for _ in range(3000)]
    with open(scratch / "texts.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    pyarrow.parquet.write_table(pyarrow.table({"n": range(len(texts)), "text": texts}), scratch / "texts.parquet",
                                row_group_size=700, compression="zstd")
    losses = []
    for name in ("texts.jsonl", "texts.parquet"):
        run(assay, "train", "--data", name, "--steps", 8, "--threads", 1, "--out", f"of-{name}")
        rows = (scratch / f"of-{name}" / "train.csv").read_text(encoding="utf-8").splitlines()
        column = rows[0].split(",").index("loss")
        losses.append([row.split(",")[column] for row in rows[1:]])
    assert len(losses[0]) == 8 and losses[0] == losses[1], losses
    print(f"Parquet: {len(texts)} documents train as the same in JSONL (pyarrow {pyarrow.__version__})")


def loss(*options):
    out = run(assay, "evaluate", "gpt", "--batches", 4, "--json", *options)
    return json.loads(out)["nats_per_token"]


# After some steps the weights and their average differ, so a package that saw other weights would show.
def check_package():
    run(assay, "train", "--data", "texts.jsonl", "--preset", "tiny", "--set", "family=gpt", "--steps", 20, "--threads", 1,
        "--out", "gpt")
    began = time.monotonic()
    compiler = source / "experiments" / "packages" / "compile.py"
    told = run(sys.executable, compiler, "gpt", "gpt.pt2").strip()
    own = {weights: loss("--weights", weights) for weights in ("raw", "ema")}
    assert abs(own["raw"] - own["ema"]) > 0.01, own
    for weights, expected in own.items():
        found = loss("--weights", weights, "--package", "gpt.pt2")
        assert abs(found - expected) < 1e-5 * expected, (weights, found, expected)
    run(assay, "ab", "compile", "--data", "texts.jsonl", "--launches", 3, "--out", "ab", "--set", "family=gpt", "--set",
        "package=gpt.pt2", "--set", "batch_rows=2", "--set", "threads=1", "--quiet")
    [cell] = json.loads(run(assay, "report", "ab", "--no-files", "--json"))["cells"]
    [compared] = cell["comparisons"]
    assert compared["verdict"]["quality"] == "EQUIVALENT", compared["verdict"]  # its gates passed, and it engaged
    for other in ({"batch_rows": 3}, {"family": "rwmba"}, {"ffn_dim": 64}):
        keys = {"family": "gpt", "eval_forward": "compiled", "package": "gpt.pt2"} | other
        settings = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
        refused = subprocess.run([assay, "train", "--data", "texts.jsonl", "--steps", "1", "--out", "none", *settings],
                                 cwd=scratch, capture_output=True, text=True, check=False)
        assert refused.returncode == 2 and "gpt.pt2: was compiled for" in refused.stderr, (other, refused)
    print(f"package: {told}; the trainer's loss, of weights and of their average ({time.monotonic() - began:.0f} s)")


check_parquet()
check_package()

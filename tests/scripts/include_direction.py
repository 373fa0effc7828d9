#!/usr/bin/env python3
"""Includes point downwards only: fails, naming file and line, on an include that architecture does not allow.

usage: include_direction.py SOURCE_DIR
"""
import pathlib
import re
import sys

# Folder of the including file -> folders it may include from. The longest matching prefix counts.
ALLOWED = {
    "core": {"core"},
    "kernels": {"kernels", "core"},
    "model/config": {"model/config", "core"},
    "model": {"model", "model/config", "kernels", "core"},
    "profilers": {"profilers", "core"},
    "experiments/analysis": {"experiments/analysis", "core"},
    "experiments": {"experiments", "experiments/analysis", "model/config", "core"},
    "ui": {"ui", "experiments", "experiments/analysis", "core"},
    "app": {"app"},  # what programs share
    "app/assay": {"app/assay", "app", "experiments", "experiments/analysis", "model/config", "profilers", "core"},
    "app/worker": {"app/worker", "app", "experiments", "model", "model/config", "kernels", "profilers", "core"},
    "app/view": {"app/view", "ui", "experiments/analysis", "core"},
}
# The worker may speak the engine's protocol and nothing else of it.
WORKER_FROM_EXPERIMENTS = {"experiments/protocol.h"}
# The viewer may have what completes a report, and nothing that runs or plans.
VIEWER_FROM_EXPERIMENTS = {"experiments/speed.h"}
LIBTORCH_OR_CUDA = re.compile(r"^(torch|ATen|c10|caffe2|cuda|cudnn|cublas|nccl|cupti|nvml)")
# CUPTI's record types, behind the interface of profilers/device_collector.h.
CUPTI_FILES = ("profilers/cupti_",)
LIBTORCH_FREE = ("core", "experiments", "ui", "model/config", "app/assay", "app/view", "profilers")


def layer(path: str) -> str:
    matches = [name for name in ALLOWED if path.startswith(name + "/")]
    return max(matches, key=len) if matches else ""


def problems(root: pathlib.Path):
    for top in ("app", "core", "experiments", "kernels", "model", "profilers", "ui"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu"):
                continue
            name = str(path.relative_to(root))
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
                if not match:
                    continue
                quote, target = match.groups()
                cupti = target.startswith("cupti") and name.startswith(CUPTI_FILES)
                if LIBTORCH_OR_CUDA.match(target) and name.startswith(LIBTORCH_FREE) and not cupti:
                    yield f"{name}:{number}: LibTorch or CUDA header <{target}> is not allowed in this folder"
                if path.suffix == ".cu" and re.match(r"^(torch|ATen|c10)/", target):
                    yield f"{name}:{number}: LibTorch header <{target}> in a .cu file"
                if target.startswith("profilers/cupti_") and not name.startswith(CUPTI_FILES):
                    yield f"{name}:{number}: {target} brings CUPTI's header; use profilers/device_collector.h"
                if quote == '"' and (root / target).exists() and layer(target) not in ALLOWED[layer(name)]:
                    yield f"{name}:{number}: {layer(name)}/ may not include {target}"
                if name.startswith("app/worker/") and target.startswith("experiments/") and target not in WORKER_FROM_EXPERIMENTS:
                    yield f"{name}:{number}: the worker may include only the protocol from experiments/, not {target}"
                if name.startswith("ui/") and layer(target) == "experiments" and target not in VIEWER_FROM_EXPERIMENTS:
                    yield f"{name}:{number}: the viewer may include only speed.h from experiments/, not {target}"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) if found else "every include points downwards")
sys.exit(1 if found else 0)

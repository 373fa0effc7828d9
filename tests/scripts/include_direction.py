#!/usr/bin/env python3
"""Includes point downwards only: fails, naming file and line, on an include that architecture does not allow.

usage: include_direction.py SOURCE_DIR              checks every include
       include_direction.py SOURCE_DIR --markdown   prints the table of allowed arrows
       include_direction.py SOURCE_DIR --page FILE  fails unless FILE contains that table
"""
import graphlib
import pathlib
import re
import sys

CORE = {"core", "core/files", "core/sqlite", "core/ledger", "core/ledger/storage", "core/trace", "core/statistics"}
REPORTS = {"experiments/evidence", "experiments/evidence/loss", "experiments/evidence/memory", "experiments/evidence/energy", "experiments/attribution", "experiments/analysis"}
LAYERS = {"model/layers", "model/layers/attention", "model/layers/delta_rule", "model/layers/scan"}
MODEL = LAYERS | {"model/config", "model/layout", "model/nsa", "model/data", "model/long_text", "model/ddp", "model/families",
                  "model/graph", "model/memory", "model/training", "model/gates"}
VIEWER = {"ui/model", "ui/model/trace", "ui/model/results"}
KERNELS = {"kernels", "kernels/attention", "kernels/delta_rule", "kernels/fp8", "kernels/nsa", "kernels/products",
           "kernels/rowwise", "kernels/scan", "kernels/update"}
ENGINE = {"experiments/plan", "experiments/plan/matrix", "experiments/plan/claims", "experiments/engine",
          "experiments/demo"}
EXCHANGE = {"experiments/export", "experiments/import"}
PROFILERS = {"profilers/machine", "profilers/trace", "profilers/cupti", "profilers/monitor"}
# Room of the including file -> rooms it may include from, besides itself. The longest matching prefix counts, so a folder
# without a row is a part of the room above it (model/layers/fp8, model/config/optimizations, ui/model/telemetry: both include each other).
ALLOWED = {
    "core": set(),
    "core/files": {"core", "core/sqlite"},
    "core/sqlite": {"core"},
    "core/statistics": {"core"},
    "core/ledger": {"core", "core/files", "core/sqlite", "core/statistics"},
    "core/ledger/storage": {"core", "core/files", "core/ledger", "core/sqlite"},
    "core/trace": {"core", "core/files", "core/sqlite"},
    "core/protocol": {"core", "core/ledger"},
    "kernels": {"core"},
    "kernels/attention": {"core", "kernels"},
    "kernels/delta_rule": {"core", "kernels"},
    "kernels/fp8": {"core", "kernels", "kernels/rowwise"},
    "kernels/nsa": {"core", "kernels"},
    "kernels/products": {"core", "kernels"},
    "kernels/rowwise": {"core", "kernels"},
    "kernels/scan": {"core", "kernels"},
    "kernels/update": {"core", "kernels"},
    "model": set(),
    "model/config": CORE,
    "model/config/families": CORE | {"model/config"},
    "model/layout": CORE | {"model/config"},
    "model/layers": CORE | {"model/config", "model/layout"} | KERNELS,
    "model/layers/attention": CORE | {"model/config", "model/layout", "model/layers"} | KERNELS,
    "model/layers/delta_rule": CORE | {"model/config", "model/layout", "model/layers"} | KERNELS,
    "model/layers/scan": CORE | {"model/config", "model/layout", "model/layers"} | KERNELS,
    "model/nsa": CORE | LAYERS | {"model/config", "model/layout"} | KERNELS,
    "model/data": CORE | {"model/config", "model/layout"},
    "model/long_text": CORE,
    "model/families": CORE | LAYERS | {"model/config", "model/layout", "model/nsa"},
    "model/ddp": CORE | {"model/config", "model/layout", "model/data", "model/families", "model/layers"},
    "model/memory": CORE | {"model/config"},
    "model/graph": CORE | {"kernels", "model/config", "model/layout"},
    "model/training": CORE | MODEL - {"model/gates", "model/training"} | KERNELS,
    "model/gates": CORE | MODEL - {"model/gates"},
    "profilers/machine": CORE,
    "profilers/trace": CORE | {"profilers/machine"},
    "profilers/cupti": CORE | {"profilers/trace"},
    "profilers/monitor": CORE | {"profilers/machine", "profilers/trace"},
    "experiments/evidence": CORE,
    "experiments/evidence/loss": CORE | {"experiments/evidence"},
    "experiments/evidence/memory": CORE | {"experiments/evidence"},
    "experiments/evidence/energy": CORE | {"experiments/evidence"},
    "experiments/attribution": CORE,
    "experiments/analysis": CORE | REPORTS - {"experiments/analysis"} | {"model/config"},
    "experiments/analysis/judging": CORE | REPORTS | {"model/config"},
    "experiments/report": CORE | REPORTS,
    "experiments/report/sections": CORE | REPORTS | {"experiments/report"},
    "experiments/report/html": CORE | REPORTS | {"experiments/report"},
    "experiments/unpaired": CORE | REPORTS | {"experiments/report", "model/config"},
    "experiments/export": CORE | {"experiments/attribution"},
    "experiments/import": CORE,
    "experiments/plan/matrix": CORE | {"experiments/evidence", "model/config"},
    "experiments/plan/claims": CORE | REPORTS | {"experiments/plan/matrix", "model/config"},
    "experiments/plan": CORE | REPORTS | {"core/protocol", "experiments/plan/matrix", "experiments/plan/claims", "model/config"},
    "experiments/engine": CORE | {"core/protocol", "experiments/plan", "experiments/plan/matrix", "experiments/evidence", "experiments/evidence/loss"},
    "experiments/demo": CORE,
    "ui/model/trace": CORE | {"experiments/attribution"},
    "ui/model/results": CORE | REPORTS | {"experiments/report", "experiments/report/sections"},
    "ui/model": CORE | REPORTS | {"experiments/import", "ui/model/trace", "ui/model/results"},
    "ui/style": CORE | VIEWER | {"experiments/evidence"},
    "ui/timeline": CORE | VIEWER | {"ui/style"},
    "ui/platform": CORE | VIEWER | {"ui/style"},
    "ui/screens": CORE | VIEWER | {"ui/style", "ui/timeline"},
    "ui/window": CORE | VIEWER | {"ui/style", "ui/screens", "ui/platform"},
    "app": CORE,  # what programs share
    "app/command_line": CORE | {"app"},
    "app/assay": CORE | REPORTS | ENGINE | {"app", "app/command_line", "experiments/report", "profilers/machine"},
    "app/assay/verbs/sql": CORE | REPORTS | {"app", "app/assay", "app/command_line", "experiments/import", "experiments/report"},
    "app/assay/verbs": CORE | REPORTS | ENGINE | PROFILERS
    | {"app", "app/assay", "app/assay/verbs/sql", "app/command_line", "experiments/report", "experiments/unpaired",
       "model/config"}
    | EXCHANGE,
    "app/worker/ranks": CORE | MODEL,
    "app/worker/launch": CORE | MODEL | PROFILERS | {"core/protocol", "app/worker/ranks"},
    "app/worker": CORE | MODEL | {"app/command_line", "core/protocol", "app/worker/launch", "app/worker/ranks"},
    "app/worker/verbs": CORE | MODEL | PROFILERS | {"app", "app/command_line", "app/worker", "app/worker/launch"},
    "app/view": CORE | VIEWER | {"app", "app/command_line", "ui/style", "ui/screens", "ui/window", "ui/platform"},
}
IMGUI = re.compile(r"^(imgui|implot)")
IMGUI_FREE = ("ui/model",)
LIBTORCH_OR_CUDA = re.compile(r"^(torch|ATen|c10|caffe2|cuda|cudnn|cublas|nccl|cupti|nvml)")
# CUPTI's record types, behind the interface of profilers/trace/device_collector.h.
CUPTI_FILES = ("profilers/cupti/",)
LIBTORCH_FREE = ("core", "experiments", "ui", "model/config", "app/assay", "app/view", "profilers")


def layer(path: str) -> str:
    matches = [name for name in ALLOWED if path.startswith(name + "/")]
    return max(matches, key=len) if matches else ""


def problems(root: pathlib.Path):
    for top in ("app", "core", "experiments", "kernels", "model", "profilers", "ui"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh", ".inc"):
                continue
            name = str(path.relative_to(root))
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
                if not match:
                    continue
                quote, target = match.groups()
                ours = (root / target).exists()
                if (quote == "<") == ours and not IMGUI.match(target):
                    yield f"{name}:{number}: write an include of ours in quotes, with its path from the root, another as <{target}>"
                cupti = target.startswith("cupti") and name.startswith(CUPTI_FILES)
                if LIBTORCH_OR_CUDA.match(target) and name.startswith(LIBTORCH_FREE) and not cupti:
                    yield f"{name}:{number}: LibTorch or CUDA header <{target}> is not allowed in this folder"
                if path.suffix == ".cu" and re.match(r"^(torch|ATen|c10)/", target):
                    yield f"{name}:{number}: LibTorch header <{target}> in a .cu file"
                if target.startswith("profilers/cupti/cupti_") and not name.startswith(CUPTI_FILES):
                    yield f"{name}:{number}: {target} brings CUPTI's header; use profilers/trace/device_collector.h"
                if ours and layer(target) not in ALLOWED[layer(name)] | {layer(name)}:
                    yield f"{name}:{number}: {layer(name)}/ may not include {target}"
                if IMGUI.match(target) and name.startswith(IMGUI_FREE):
                    yield f"{name}:{number}: Dear ImGui in ui/model, which says what the window shows and draws nothing"


def cycles():
    """A table in which two rooms may include each other would let any include pass."""
    try:
        list(graphlib.TopologicalSorter(ALLOWED).static_order())
    except graphlib.CycleError as error:
        yield "the table ALLOWED has a cycle: " + " -> ".join(error.args[1])


GROUPS = {"all of core": CORE, "all of kernels": KERNELS, "all of model": MODEL, "all layers": LAYERS,
          "all of profilers": PROFILERS, "reports": REPORTS,
          "the engine": ENGINE, "other programs' traces": EXCHANGE, "the viewer's model": VIEWER}


def words(rooms: set, groups: dict) -> str:
    """A whole group of rooms takes one name."""
    parts, rest = [], set(rooms)
    for name, members in groups.items():
        if members <= rest:
            parts.append(name)
            rest -= members
    return ", ".join(parts + [f"`{room}`" for room in sorted(rest)])


def markdown() -> str:
    """One row a group or room, from the bottom up."""
    rows = [f"| {name} | {words(rooms, {n: r for n, r in GROUPS.items() if r < rooms})} |" for name, rooms in GROUPS.items()]
    lines = ["| group | rooms |", "|---|---|", *rows, "", "| room | may include |", "|---|---|"]
    lines += [f"| `{room}` | {words(allowed, GROUPS) or 'no other room'} |" for room, allowed in ALLOWED.items()]
    return "\n".join(lines) + "\n"


def main(source: str, mode: str = "", page: str = "") -> int:
    if mode == "--markdown":
        print(markdown(), end="")
        return 0
    if mode == "--page":
        if markdown() in pathlib.Path(page).read_text():
            return 0
        print(f"{page}: its table of rooms is old; paste the output of {sys.argv[0]} {source} --markdown")
        return 1
    found = list(cycles()) + list(problems(pathlib.Path(source)))
    print("\n".join(found) if found else "every include points downwards")
    return 1 if found else 0


sys.exit(main(*sys.argv[1:]))

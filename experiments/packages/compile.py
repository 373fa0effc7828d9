"""Compiles the model of a checkpoint ahead of time (AOTInductor), for evaluations (docs/model.md).
Run with Python and torch 2.11.0: compile.py CHECKPOINT OUT.pt2 [--batch-rows N] [--seq-len N]
A trainer that loads the package gives it weights of its own: those of the checkpoint do not stay in use."""

import argparse
import glob
import importlib
import json
import os
import re
import sys
import time
import zipfile

import safetensors
import torch
import torch._inductor

FAMILIES = ("gpt", "rwmba", "hydra")
PREFIX = "model."


class Refused(Exception):
    """What the user has to change; printed as one line."""


def read_config(checkpoint):
    """The configuration and the path of the tensors (data.md, Checkpoints)."""
    described = checkpoint
    if os.path.isdir(checkpoint):
        found = sorted(glob.glob(os.path.join(glob.escape(checkpoint), "checkpoint-*.json")))
        if not found:
            raise Refused(f"{checkpoint} has no checkpoint")
        described = found[-1]
    elif not os.path.isfile(checkpoint):
        raise Refused(f"{checkpoint}: no such file")
    if checkpoint.endswith(".safetensors"):
        # NAME.b.safetensors is described by NAME.json too.
        described = checkpoint.removesuffix(".safetensors").removesuffix(".b") + ".json"
        if not os.path.isfile(described):
            raise Refused(f"{checkpoint} is no checkpoint: there is no {described}")
    try:
        with open(described, encoding="utf-8") as file:
            description = json.load(file)
        if description["format"] != "assay-checkpoint" or description["version"] != 1:
            raise KeyError("format")
        config, tensors = description["config"], description["tensors"]["file"]
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{described} does not describe a checkpoint of version 1") from error
    tensors = os.path.join(os.path.dirname(described), tensors)
    if not os.path.isfile(tensors):
        raise Refused(f"{described} names {tensors}, which is missing")
    if checkpoint.endswith(".safetensors") and os.path.basename(tensors) != os.path.basename(checkpoint):
        raise Refused(f"{checkpoint} is not the file that {described} names: {tensors}")
    return config, tensors


def build(config):
    """The family's Model, without weights."""
    family = config.get("family")
    if family not in FAMILIES:
        raise Refused(f"family '{family}' is not written in Python here; {', '.join(FAMILIES)} are")
    try:
        return importlib.import_module(family).Model(config).eval()
    except KeyError as error:
        raise Refused(f"the configuration lacks the key {error}") from error
    except ValueError as error:
        raise Refused(f"the configuration does not make a model of family {family}: {error}") from error


def load(model, tensors):
    """Reads the tensors model.*; names and shapes must be the model's."""
    try:
        with safetensors.safe_open(tensors, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(PREFIX)]
            weights = {name.removeprefix(PREFIX): file.get_tensor(name) for name in names}
    except safetensors.SafetensorError as error:
        raise Refused(f"{tensors} is no safetensors file: {error}") from error
    parameters = dict(model.named_parameters())
    for name in sorted(parameters.keys() ^ weights.keys()):
        raise Refused(f"{tensors}: tensor {PREFIX}{name} is {'missing' if name in parameters else 'unknown'}")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            shapes = f"{list(weights[name].shape)}, expected {list(parameter.shape)}"
            raise Refused(f"{tensors}: tensor {PREFIX}{name} has shape {shapes}")
        parameter.copy_(weights[name])


def shape(config, options):
    """Rows and tokens per row of the package."""
    rows = config["batch_rows"] if options.batch_rows is None else options.batch_rows
    length = config["seq_len"] if options.seq_len is None else options.seq_len
    if rows < 1 or length < 1:
        raise Refused(f"--batch-rows and --seq-len must be at least 1, not {rows} and {length}")
    if config["family"] == "gpt" and length > config["positions"]:
        raise Refused(f"--seq-len is {length}, but the model has {config['positions']} positions")
    return rows, length


def compile_model(model, config, rows, length, out):
    """Writes the package."""
    tokens = torch.zeros(rows, length, dtype=torch.int64)
    exported = torch.export.export(model, (tokens, tokens.clone()), strict=False)
    shapes = (f"{name} {'x'.join(map(str, weight.shape))}\n" for name, weight in model.named_parameters())
    metadata = {"family": config["family"], "batch_rows": str(rows), "seq_len": str(length)}
    metadata |= {"shapes": "".join(sorted(shapes)), "torch": torch.__version__}
    settings = {
        "aot_inductor.metadata": metadata,
        # The loader replaces weights, so none may become part of the code: not folded, and short
        # vectors (up to 8 numbers) not written out as numbers.
        "aot_inductor.use_runtime_constant_folding": False,
        "freezing": False,
        "always_keep_tensor_constants": True,
        "cpp.dynamic_threads": True,  # as many threads as the trainer has
    }
    torch._inductor.aoti_compile_and_package(exported, package_path=out, inductor_configs=settings)


def loops(package):
    """Names of the loops that the compiler wrote, from its code inside the package."""
    with zipfile.ZipFile(package) as archive:
        sources = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".cpp")]
    return sorted({name for source in sources for name in re.findall(r"\bcpp_fused_\w+", source)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("out", metavar="OUT.pt2")
    parser.add_argument("--list", action="store_true", help="print the loops that the compiler wrote")
    parser.add_argument("--batch-rows", type=int, help="rows of a batch (default: the configuration's)")
    parser.add_argument("--seq-len", type=int, help="tokens of a row (default: the configuration's)")
    options = parser.parse_args()
    begin = time.monotonic()
    try:
        if not options.out.endswith(".pt2"):
            raise Refused(f"the package's name must end in .pt2, not {options.out}")
        config, tensors = read_config(options.checkpoint)
        model = build(config)
        rows, length = shape(config, options)
        with torch.no_grad():
            load(model, tensors)
            compile_model(model, config, rows, length, os.path.abspath(options.out))
    except Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 2
    parameters = sum(parameter.numel() for parameter in model.parameters())
    size = os.path.getsize(options.out) / 2**20
    names = loops(options.out)
    # An export is one graph or fails, so there is no break in it.
    print(f"{config['family']}: {parameters} parameters, {rows} x {length} tokens, 1 graph, {len(names)} loops, "
          f"{time.monotonic() - begin:.0f} s, {size:.1f} MiB")
    if options.list:
        print("\n".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Opens a checkpoint with Python's safetensors and checks it against its JSON.

usage: safetensors_roundtrip.py CHECKPOINT.json [NAME=FIRST_VALUE ...]

Each NAME=FIRST_VALUE is an fp32 tensor and the value its first element must have.
Exit: 0 sound, 1 not, 77 when Python's safetensors is not installed.
"""
import json
import pathlib
import struct
import sys
import zlib

try:
    import safetensors
except ImportError:
    sys.exit(77)

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}


def check(checkpoint, expected_first):
    described = json.loads(checkpoint.read_text())
    content = (checkpoint.parent / described["tensors"]["file"]).read_bytes()
    assert described["format"] == "assay-checkpoint"
    assert len(content) == described["tensors"]["size"], "size differs from the JSON"
    assert f"{zlib.crc32(content):08x}" == described["tensors"]["crc32"], "CRC-32 differs from the JSON"

    tensors = dict(safetensors.deserialize(content))
    assert tensors, "no tensor"
    for name, tensor in tensors.items():
        count = 1
        for extent in tensor["shape"]:
            count *= extent
        assert len(tensor["data"]) == count * BYTES[tensor["dtype"]], name
    for name, first in expected_first.items():
        assert tensors[name]["dtype"] == "F32", name
        (value,) = struct.unpack("<f", bytes(tensors[name]["data"][:4]))
        assert value == first, f"{name}: {value} is not {first}"
    return len(tensors)


def main():
    expected = {name: float(value) for name, value in (word.split("=") for word in sys.argv[2:])}
    count = check(pathlib.Path(sys.argv[1]), expected)
    print(f"{sys.argv[1]}: {count} tensors open with safetensors {safetensors.__version__}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Fails, naming both places, where our sources repeat a block of code: one rule belongs in one place.

usage: duplicates.py SOURCE_DIR [LINES]     LINES: length of a block that counts (default 8)

A line counts without its spaces; blank lines, comments, includes and lone braces count for nothing, so that a block is
code, not layout.
"""
import collections
import pathlib
import re
import sys

FOLDERS = ("app", "core", "experiments", "kernels", "model", "profilers", "ui")
NO_CODE = re.compile(r"^(|[{}();,]*|#.*|//.*|}.*namespace.*|namespace.*{)$")


def code_lines(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        bare = re.sub(r"\s+", "", line)
        if not NO_CODE.match(bare):
            yield number, bare


def repeated(root, length):
    places = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                lines = list(code_lines(path))
                for i in range(len(lines) - length + 1):
                    block = "\n".join(text for _, text in lines[i:i + length])
                    places[block].append((path.relative_to(root), lines[i][0]))
    last = {}  # pair of files -> lines of the last report, so that a long block is named once
    for found in places.values():
        for (file_a, line_a), (file_b, line_b) in zip(found, found[1:]):
            near = last.get((file_a, file_b))
            last[(file_a, file_b)] = (line_a, line_b)
            if near is None or line_a - near[0] > length:
                yield f"{file_a}:{line_a} and {file_b}:{line_b} hold the same {length} or more lines of code"


root = pathlib.Path(sys.argv[1])
messages = list(repeated(root, int(sys.argv[2]) if len(sys.argv) > 2 else 8))
print("\n".join(messages) if messages else "no repeated blocks of code")
sys.exit(1 if messages else 0)

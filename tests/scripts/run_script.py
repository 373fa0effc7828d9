#!/usr/bin/env python3
"""Runs a script test (*.test): readable lines that start the programs and look at what they print.

    run CMD           runs CMD, which must exit 0; its output is what the next lines look at
    exits N CMD       runs CMD, which must exit N
    match REGEX       the output (stdout and stderr) must match
    absent REGEX      the output must not match
    file PATH         the file must exist and not be empty
    write PATH TEXT   writes a small file (\\n is a new line)
    # …               comment; the first says what the test shows

CMD is a shell line. $BIN is the folder of the programs, $SRC the source tree, $CORPUS the default corpus; the working
directory is an empty folder that is removed at the end.

usage: run_script.py FILE BIN_DIR SOURCE_DIR CORPUS
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TIMEOUT_S = 480


def run(test: pathlib.Path, environment: dict, directory: str) -> int:
    output = ""
    for number, line in enumerate(test.read_text().splitlines(), 1):
        verb, _, rest = line.strip().partition(" ")
        rest = rest.lstrip()
        if not verb or verb.startswith("#"):
            continue

        def fail(why: str) -> int:
            print(f"{test.name}:{number}: {line}\n  {why}\n--- output\n{output}")
            return 1

        if verb in ("run", "exits"):
            expected = 0
            if verb == "exits":
                code, _, rest = rest.partition(" ")
                expected = int(code)
            done = subprocess.run(["bash", "-c", rest], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
            output = done.stdout.decode("utf-8", "replace")
            if done.returncode != expected:
                return fail(f"exit code {done.returncode}, expected {expected}")
        elif verb == "match":
            if not re.search(rest, output, re.MULTILINE):
                return fail("no match")
        elif verb == "absent":
            if re.search(rest, output, re.MULTILINE):
                return fail("must not match")
        elif verb == "file":
            path = pathlib.Path(directory, rest)
            if not path.exists() or path.stat().st_size == 0:
                return fail("missing or empty file")
        elif verb == "write":
            name, _, text = rest.partition(" ")
            path = pathlib.Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("\\n", "\n") + "\n")
        else:
            return fail(f"unknown verb '{verb}'")
    return 0


def main() -> int:
    test, binaries, source, corpus = (pathlib.Path(argument).absolute() for argument in sys.argv[1:5])
    environment = dict(os.environ, BIN=str(binaries), SRC=str(source), CORPUS=str(corpus), NO_COLOR="1")
    with tempfile.TemporaryDirectory(prefix="assay-script-") as directory:
        environment["XDG_CACHE_HOME"] = str(pathlib.Path(directory, ".cache"))
        return run(test, environment, directory)


sys.exit(main())

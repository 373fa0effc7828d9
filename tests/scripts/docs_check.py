#!/usr/bin/env python3
"""Checks of the Markdown that people write: links, shape, and the tables of folders.

usage: docs_check.py SOURCE_DIR links    every relative link, anchor and `path` of a room resolves
       docs_check.py SOURCE_DIR style    lines of at most 100 columns, table cells of at most 200 characters
       docs_check.py SOURCE_DIR folders  README tables name what exists, every file beside one, and every folder with sources
"""
import fnmatch
import pathlib
import re
import sys
import urllib.parse

COLUMNS, CELL = 100, 200
SKIPPED = (".git", "build", "results")  # not committed
GENERATED = re.compile(r"(docs/results|tests)/.+/|docs/results/claims\.md$")  # `assay` wrote these
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".toml", ".test", ".cmake"}
COMPILED = {".h", ".cpp", ".cu", ".cuh"}
HISTORY = ("CHANGELOG.md", "docs/decisions.md")  # may name what is no more
ROOMS = ("app", "cmake", "core", "experiments", "kernels", "model", "profilers", "tests", "ui")
PATH = re.compile(rf"`((?:{'|'.join(ROOMS)}|docs)/[\w./*-]+)`")


def pages(root: pathlib.Path):
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root)
        if name.parts[0] not in SKIPPED:
            yield path, str(name)


def prose(text: str):
    """Numbered lines outside of code blocks."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


def slug(heading: str) -> str:
    """An anchor as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text, flags=re.UNICODE).replace(" ", "-")


def anchors(path: pathlib.Path) -> set:
    found, seen = set(), {}
    for _, line in prose(path.read_text()):
        if match := re.match(r"#{1,6} (.*)", line):
            name = slug(match[1])
            seen[name] = seen.get(name, -1) + 1
            found.add(name if seen[name] == 0 else f"{name}-{seen[name]}")
    return found


def names_file(root: pathlib.Path, page: pathlib.Path, path: str) -> bool:
    """From the root or the page, with or without its ending; NAME stands for any."""
    return "NAME" in path or any(any(folder.glob(end)) for folder in (root, page.parent) for end in (path, path + ".*"))


def links(root: pathlib.Path):
    for path, name in pages(root):
        for number, line in prose(path.read_text()):
            if name not in HISTORY:
                yield from (f"{name}:{number}: `{source}`: no such file"
                            for source in PATH.findall(line) if not names_file(root, path, source))
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = urllib.parse.unquote(target).partition("#")
                there = (path.parent / file).resolve() if file else path
                if not there.exists():
                    yield f"{name}:{number}: {target}: no such file"
                elif anchor and (there.suffix != ".md" or anchor not in anchors(there)):
                    yield f"{name}:{number}: {target}: no such heading"


def style(root: pathlib.Path):
    for path, name in pages(root):
        if GENERATED.match(name):
            continue
        for number, line in prose(path.read_text()):
            if line.startswith("|"):
                cells = re.split(r"(?<!\\)\|", line)
                yield from (f"{name}:{number}: a table cell of {len(c.strip())} characters: make it text below the table"
                            for c in cells if len(c.strip()) > CELL)
            elif len(line) > COLUMNS and " " in LINK.sub("", line).strip():
                yield f"{name}:{number}: {len(line)} columns"


def folder_rows(text: str):
    """The first cells of tables whose first heading is 'folder' or 'file'."""
    head = None
    for number, line in prose(text):
        if not line.startswith("|"):
            head = None
        elif head is None:
            head = line.split("|")[1].strip()
        elif head in ("folder", "file") and not line.startswith("|---"):
            yield from ((number, name) for name in re.findall(r"`([^`]+)`", line.split("|")[1]))


def exists(folder: pathlib.Path, name: str) -> bool:
    if name.endswith("/"):
        return (folder / name).is_dir()
    return (folder / name).exists() or any(folder.glob(name + ".*")) or ("*" in name and any(folder.glob(name)))


def unnamed_files(folder: pathlib.Path, text: str):
    """Compiled files beside a README with a table of files that it names nowhere, by their stems."""
    names = [re.sub(r"\.\w+$", "", name) for name in re.findall(r"`([^`\s]+)`", text)]
    if not any(not name.endswith("/") for _, name in folder_rows(text)):
        return
    for stem in sorted({p.stem for p in folder.iterdir() if p.suffix in COMPILED}):
        if not any(fnmatch.fnmatch(stem, name) for name in names):
            yield stem


def folders(root: pathlib.Path):
    named = set()
    for path, name in pages(root):
        if path.name != "README.md" or GENERATED.match(name):
            continue
        named.add(path.parent)
        for number, row in folder_rows(path.read_text()):
            if not exists(path.parent, row):
                yield f"{name}:{number}: `{row}` does not exist"
            named.add((path.parent / row).resolve())
        for stem in unnamed_files(path.parent, path.read_text()):
            yield f"{name}: `{stem}` of its folder is not named"
    for top in ROOMS:
        with_sources = {p.parent for p in (root / top).rglob("*") if p.suffix in SOURCES}
        for folder in sorted(with_sources - named):
            if "__pycache__" not in folder.parts:
                yield f"{folder.relative_to(root)}/: no README names this folder"


root = pathlib.Path(sys.argv[1]).resolve()
found = list({"links": links, "style": style, "folders": folders}[sys.argv[2]](root))
print("\n".join(found) if found else f"{sys.argv[2]}: all right")
sys.exit(1 if found else 0)

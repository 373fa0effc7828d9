#!/usr/bin/env python3
"""Runs a program in a terminal of COLUMNS columns and fails if a line is wider, or one that it rewrites fills it.

usage: terminal_width.py COLUMNS PROGRAM [ARGUMENT...]
"""
import fcntl
import os
import pty
import re
import struct
import sys
import termios

columns = int(sys.argv[1])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
output = b""
try:
    while data := os.read(terminal, 65536):
        output += data
except OSError:  # the terminal's other side is closed
    pass
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
parts = output.decode().split("\r\033[K")
rewritten = [part.split("\r\n")[0] for part in parts[1:]]
others = parts[0].split("\r\n") + [line for part in parts[1:] for line in part.split("\r\n")[1:]]
widths = [[len(re.sub("\033\\[[0-9;]*[A-Za-z]", "", line)) for line in lines] for lines in (rewritten, others)]
widest = [max(group, default=0) for group in widths]
print(f"widest lines: {widest[0]} rewritten, {widest[1]} other, of {columns} columns")
sys.exit(code if rewritten and widest[0] < columns and widest[1] <= columns else 1)

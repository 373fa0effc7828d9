#!/usr/bin/env python3
"""Runs a program in a terminal of COLUMNS columns and fails if a line that it rewrites is wider.

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
shown = [part.split("\r\n")[0] for part in output.decode().split("\r\033[K")[1:]]
lines = [re.sub("\033\\[[0-9;]*[A-Za-z]", "", line) for line in shown]
widest = max(map(len, lines), default=0)
print(f"widest line: {widest} of {columns} columns")
sys.exit(code if widest < columns and lines else 1)

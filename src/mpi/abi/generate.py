#!/usr/bin/env python3
"""Makes what follows from the tables of the MPI interface (functions.txt, constants.txt).

  generate.py FOLDER              mpi.h, calls.hpp, error_texts.hpp, names.inc and front_*.cpp
  generate.py --coverage [FILE]   the page docs/mpi-coverage.md, to FILE or standard output
  generate.py --tested            marks in functions.txt what the programs of tests/mpi call

Files that would not change are left alone.
"""
import os
import sys

import coverage
import fronts
import header
from tables import HERE


def write(folder, name, text):
    path = os.path.join(folder, name)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as old:
            if old.read() == text:
                return
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as new:
        new.write(text)


if sys.argv[1:2] == ["--coverage"]:
    page = coverage.page()
    if len(sys.argv) > 2:
        write(os.path.dirname(sys.argv[2]) or ".", os.path.basename(sys.argv[2]), page)
    else:
        print(page, end="")
elif sys.argv[1:] == ["--tested"]:
    write(HERE, "functions.txt", coverage.marked())
else:
    write(sys.argv[1], "mpi.h", header.header())
    write(sys.argv[1], "error_texts.hpp", header.error_texts())
    write(sys.argv[1], "names.inc", header.names())
    write(sys.argv[1], "calls.hpp", fronts.calls())
    for file, text in fronts.fronts():
        write(sys.argv[1], file, text)

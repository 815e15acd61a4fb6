"""Every public header compiles alone: with nothing before it, twice, and with no other include
path than include/ (so that no user needs a library of ours to use weft's headers).

  check_headers.py COMPILER
"""
import concurrent.futures
import os
import subprocess
import sys

from house import ROOT, files_below, finish


def compile_alone(header):
    name = os.path.relpath(header, "include")
    done = subprocess.run(
        [sys.argv[1], "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
         "-Wconversion", "-Wno-sign-conversion", "-Werror",
         "-I", os.path.join(ROOT, "include"), "-x", "c++", "-"],
        input=f'#include "{name}"\n#include "{name}"\n', capture_output=True, text=True)
    return [f"{header} does not compile alone:\n{done.stderr}"] if done.returncode else []


headers = files_below(ROOT, "include")
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(compile_alone, headers))
finish([finding for result in results for finding in result], f"{len(headers)} public headers")

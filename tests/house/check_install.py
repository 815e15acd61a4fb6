"""Installs to a temporary folder, then builds and runs a small program against what lies there:
once by CMake's find_package, once by pkg-config, alone and as a job of two; and an MPI program, by
mpicc and mpiexec.

  check_install.py BUILD CMAKE COMPILER
"""
import os
import re
import subprocess
import sys
import tempfile

from house import ROOT, finish

build, cmake, compiler = sys.argv[1:4]
CONSUMER = os.path.join(ROOT, "tests", "house", "consumer")
findings = []


def run(what, *command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    if done.returncode:
        findings.append(f"{what} failed ({done.returncode}): {' '.join(command)}\n"
                        f"{done.stdout}{done.stderr}")
    return done.stdout if done.returncode == 0 else None


def run_consumer(what, prefix, program):
    alone = run(f"{what}: alone", program)
    if alone is not None and "0 of 1 got 100" not in alone:
        findings.append(f"{what}: alone it printed {alone!r}")
    job = run(f"{what}: as a job of two", os.path.join(prefix, "bin", "weftrun"), "-n", "2",
              "--timeout", "60", program)
    if job is not None and sorted(re.findall(r"(\d of 2 got \d+)", job)) != [
            "0 of 2 got 101", "1 of 2 got 100"]:
        findings.append(f"{what}: as a job of two it printed {job!r}")


with tempfile.TemporaryDirectory(prefix="weft-install-") as place:
    first = os.path.join(place, "first")
    run("install", cmake, "--install", build, "--prefix", first)
    # Nothing in it may depend on where it was put.
    prefix = os.path.join(place, "moved")
    os.rename(first, prefix)

    by_cmake = os.path.join(place, "by-cmake")
    if run("configure", cmake, "-S", CONSUMER, "-B", by_cmake, f"-DCMAKE_PREFIX_PATH={prefix}",
           f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release") is not None:
        if run("build", cmake, "--build", by_cmake) is not None:
            run_consumer("find_package", prefix, os.path.join(by_cmake, "consumer"))

    files = subprocess.run(["find", prefix, "-name", "weft.pc"], text=True, capture_output=True)
    folder = os.path.dirname(files.stdout.strip())
    environment = dict(os.environ, PKG_CONFIG_PATH=folder)
    flags = run("pkg-config", "pkg-config", "--cflags", "--libs", "weft", env=environment)
    if flags is not None:
        program = os.path.join(place, "by-pkg-config")
        if run("compile", compiler, "-std=c++20", "-O2", os.path.join(CONSUMER, "main.cpp"), "-o",
               program, *flags.split()) is not None:
            run_consumer("pkg-config", prefix, program)

    # MPI, by the wrappers.
    program = os.path.join(place, "by-mpicc")
    source = os.path.join(place, "by-mpicc.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("#include <mpi.h>\n#include <stdio.h>\nint main(void) { int rank, size; "
                   "MPI_Init(0, 0); MPI_Comm_rank(MPI_COMM_WORLD, &rank); "
                   "MPI_Comm_size(MPI_COMM_WORLD, &size); printf(\"%d of %d\\n\", rank, size); "
                   "return MPI_Finalize(); }\n")
    if run("mpicc", os.path.join(prefix, "bin", "mpicc"), source, "-o", program) is not None:
        job = run("mpiexec", os.path.join(prefix, "bin", "mpiexec"), "-n", "2", program)
        if job is not None and sorted(job.split("\n")) != ["", "0 of 2", "1 of 2"]:
            findings.append(f"mpiexec: it printed {job!r}")

    # No path of the source tree may have found its way in.
    stray = run("search", "sh", "-c", f"grep -rlF '{ROOT}' '{prefix}'/lib*/cmake '{prefix}'/lib*/pkgconfig"
                f" '{prefix}'/lib*/*/cmake '{prefix}'/lib*/*/pkgconfig 2>/dev/null || true")
    if stray:
        findings.append(f"these name the source tree:\n{stray}")
finish(findings, "installed tree, three consumers")

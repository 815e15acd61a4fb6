"""docs/mpi-coverage.md is what the table of MPI functions says, and what the table calls tested is
called by a test program.

  check_mpi_coverage.py [--write]      --write: bring both up to date
"""
import os
import subprocess
import sys

from house import ROOT, finish, read

sys.path.insert(0, os.path.join(ROOT, "src", "mpi", "abi"))
GENERATOR = os.path.join(ROOT, "src", "mpi", "abi", "generate.py")
PAGE = "docs/mpi-coverage.md"

if "--write" in sys.argv[1:]:
    subprocess.run([sys.executable, GENERATOR, "--tested"], check=True)
    subprocess.run([sys.executable, GENERATOR, "--coverage", os.path.join(ROOT, PAGE)], check=True)

import coverage  # noqa: E402
import tables  # noqa: E402

findings = []
if not os.path.exists(os.path.join(ROOT, PAGE)) or read(PAGE) != coverage.page():
    findings.append(f"{PAGE} is not what the table says; `make docs` brings it up to date")
if read("src/mpi/abi/functions.txt") != coverage.marked():
    findings.append("src/mpi/abi/functions.txt: 'tested' is not what tests/mpi/programs call; "
                    "`make docs` brings it up to date")
functions = tables.functions()
names = [name for function in functions for name in function.names()]
if len(names) != 664 or len(set(names)) != 664:
    findings.append(f"the table has {len(set(names))} names; the ABI has 664")
finish(findings, f"{len(names)} MPI functions")

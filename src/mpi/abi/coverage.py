"""docs/mpi-coverage.md: what there is of each MPI function."""
import glob
import os
import re

from tables import HERE, STATES, functions

TESTS = os.path.join(HERE, "..", "..", "..", "tests", "mpi")

TOP = """\
# MPI functions

Which functions of MPI 5.0 weft has, from the table `src/mpi/abi/functions.txt` by `make docs`.

- **tested**: works, and a test program of `tests/mpi/programs` calls it. Some of these are built a second time to call the
  twins instead (`tests/mpi/by_large_counts.py`).
- **implemented**: works; no test calls it by its own name.
- **unsupported**: is there, so that programs load, and answers `MPI_ERR_UNSUPPORTED_OPERATION`.

"(+_c)": with its large-count twin, of the same state; "(+_c, implemented)": no test calls the twin. All have their
`PMPI_` name, too.

"""


def page():
    table = functions()
    twins = called()[1]
    count = dict.fromkeys(STATES.values(), 0)
    for function in table:
        count[function.state] += 1
        if function.twin:
            count[twin_state(function, twins)] += 1
    out = [TOP.rstrip(), "", "| state | functions, twins counted |", "|---|---|"]
    out += [f"| {state} | {number} |" for state, number in count.items()]
    out.append(f"| all | {sum(count.values())} |")
    for group in dict.fromkeys(f.group for f in table):
        out += ["", f"## {group[0].upper()}{group[1:]}", ""]
        for state in STATES.values():
            names = [entry(f, twins) for f in table if f.group == group and f.state == state]
            if names:
                out += [f"**{state}**: {', '.join(names)}.", ""]
        out.pop()
    return "\n".join(out) + "\n"


def entry(function, twins):
    twin = ""
    if function.twin:
        state = twin_state(function, twins)
        twin = " (+_c)" if state == function.state else f" (+_c, {state})"
    return f"`MPI_{function.name}`{twin}{' (deprecated)' if function.old else ''}"


def twin_state(function, twins):
    """Of the large-count twin."""
    if function.state == "unsupported":
        return function.state
    return "tested" if function.name in twins else "implemented"


def names_in(path):
    """The functions that a program calls, without prefix."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read(), flags=re.DOTALL)  # a comment tests nothing
    names = set(re.findall(r"\bMPI_(\w+)\b\s*[(,)]", text))
    for blocking, nonblocking in re.findall(r"\bWEFT_CALL\([^,]+, [^,]+, (\w+), (\w+),", text):
        names |= {blocking, nonblocking, f"{blocking}_init"}
    return names


def called():
    """The functions that test programs call, and those whose large-count twins they call; without prefix and _c."""
    plain, twins = set(), set()
    for path in glob.glob(os.path.join(TESTS, "programs", "*")):
        names = names_in(path)
        plain |= names
        twins |= {name[:-len("_c")] for name in names if name.endswith("_c")}
    for path in glob.glob(os.path.join(TESTS, "*.cmake")):
        with open(path, encoding="utf-8") as file:
            for program in re.findall(r"^weft_mpi_by_large_counts\((\w+)", file.read(), re.MULTILINE):
                twins |= names_in(os.path.join(TESTS, "programs", f"{program}.cpp"))
    return plain, twins


def marked():
    """functions.txt with its states `t` and `i` as the test programs are."""
    names = called()[0]
    lines = []
    with open(os.path.join(HERE, "functions.txt"), encoding="utf-8") as table:
        for line in table:
            row = re.match(r"[ti] (\w+) \S+ \S+:", line)
            if row:
                line = ("t" if row[1] in names else "i") + line[1:]
            lines.append(line)
    return "".join(lines)

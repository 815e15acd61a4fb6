"""Reads every #include and fails on an arrow that the table of cmake/Rooms.cmake does not have: up
to a higher floor, or sideways to another room of the same floor. What stands above all rooms has
rules of its own: examples and weft-graph are programs as users write them, and see public headers
only; weftrun stands on what joining a job needs; the tests of a room see no room above it, and the
private headers of none beside it.

  check_includes.py               checks the repository
  check_includes.py --self-test   plants violations in a copy of nothing and sees each one found
"""
import os
import re
import sys
import tempfile

from house import ROOT, files_below, finish

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TABLE_LINE = re.compile(r'^\s*"(\w+):([\w,]*)"', re.MULTILINE)


def read_table(root):
    with open(os.path.join(root, "cmake", "Rooms.cmake"), encoding="utf-8") as file:
        rows = TABLE_LINE.findall(file.read())
    return {room: [r for r in below.split(",") if r] for room, below in rows}


def check_table(root, table):
    findings = []
    built = set()
    for room, below in table.items():
        findings += [f"cmake/Rooms.cmake: room '{room}' stands on '{other}', which no line above it has"
                     for other in below if other not in built]
        built.add(room)
    for folder in ("src", "include/weft"):
        path = os.path.join(root, folder)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else []:
            if os.path.isdir(os.path.join(path, name)) and name not in table:
                findings.append(f"{folder}/{name}: not in the table of cmake/Rooms.cmake")
    return findings


def room_of(path):
    """The room that a file belongs to, or None for what stands above all rooms."""
    parts = path.split(os.sep)
    if parts[0] == "src":
        return parts[1]
    if parts[:2] == ["include", "weft"] and len(parts) > 3:
        return parts[2]
    return None


# Programs that stand on some rooms only, private headers included; weft-graph on public headers.
PROGRAMS = {"weftrun": ["fabric", "base"], "weft-graph": []}


def check_above(table, path, text):
    """The findings of one file of tools/, bench/ or tests/."""
    top, place = path.split(os.sep)[:2]
    above = [room for room, below in table.items() if place in below]
    for match in INCLUDE.finditer(text):
        name = match.group(1) or match.group(2)
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        first, *rest = name.split("/")
        public = first == "weft"
        target = (rest[0] if len(rest) > 1 else None) if public else first
        if target not in table:
            continue  # of no room, or the umbrella
        if top == "tools" and place in PROGRAMS:
            if (not public or PROGRAMS[place]) and target not in PROGRAMS[place]:
                yield f"{where}: {place} does not stand on '{target}' ({name})"
        elif top == "tests" and place in table:
            if target in above:
                yield f"{where}: a test of room '{place}' includes '{target}', which is above it"
            elif not public and target != place and target not in table[place]:
                yield f"{where}: a test of room '{place}' includes a private header of '{target}'"
        elif not public and target == "mpi" and place != "mpi":
            yield f"{where}: a private header of 'mpi' is included by '{top}/{place}'"


def text_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return BLOCK_COMMENT.sub(lambda match: "\n" * match.group().count("\n"), file.read())


def check_file(root, table, path):
    """The findings of one file below include/, src/ or examples/."""
    room = room_of(path)
    public = path.startswith("include" + os.sep)
    text = text_of(root, path)
    for match in INCLUDE.finditer(text):
        name = match.group(1) or match.group(2)
        quoted = match.group(1) is not None
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        first, *rest = name.split("/")
        if first == "weft":
            target = rest[0] if len(rest) > 1 else None
            if name == "weft/version.hpp":
                continue  # of no room
            if target is None and room is not None:
                yield f"{where}: room '{room}' includes the umbrella <{name}>, which is above it"
                continue
        elif first in table and rest:
            target = first
            if public:
                yield f"{where}: a public header includes the private header \"{name}\""
            elif room is None:
                yield f"{where}: an example includes the private header \"{name}\""
        elif quoted:
            beside = os.path.join(os.path.dirname(os.path.join(root, path)), name)
            if not os.path.isfile(beside):
                yield f"{where}: \"{name}\" is neither of a room nor beside this file"
            elif public or room is not None:
                yield f"{where}: \"{name}\" must be named by its room, as \"{room}/...\""
            continue
        else:
            continue  # of the system or of another library
        if room is not None and target != room and target not in table.get(room, []):
            yield f"{where}: an arrow from '{room}' to '{target}' ({name}) is not in the table"


def check(root):
    table = read_table(root)
    findings = check_table(root, table)
    files = files_below(root, "include", "src", "examples")
    for path in files:
        findings += check_file(root, table, path)
    others = files_below(root, "tools", "bench", "tests")
    for path in others:
        findings += check_above(table, path, text_of(root, path))
    return findings, f"{len(files) + len(others)} files, {len(table)} rooms"


def self_test():
    good = {
        "cmake/Rooms.cmake": 'set(WEFT_ROOMS\n  "base:"\n  "fabric:base"\n  "task:base"\n'
                             '  "comm:fabric,base")\n',
        "include/weft/base/a.hpp": "#include <vector>\n",
        "include/weft/comm/c.hpp": '#include "weft/fabric/f.hpp"\n#include "weft/base/a.hpp"\n',
        "include/weft/fabric/f.hpp": '#include "weft/base/a.hpp"\n',
        "include/weft/weft.hpp": '#include "weft/comm/c.hpp"\n',
        "src/comm/c.cpp": '#include "comm/c_impl.hpp"\n// #include "mpi/m.hpp"\n'
                          '/*\n#include "mpi/m.hpp"\n*/\n#include "fabric/f_impl.hpp"\n',
        "examples/e.cpp": '#include <weft/weft.hpp>\n',
        "tools/weftrun/w.cpp": '#include "fabric/f_impl.hpp"\n#include "weftrun/w.hpp"\n',
        "tools/weft-graph/g.cpp": '#include "weft/comm/c.hpp"\n#include "graph/g.hpp"\n',
        "tests/comm/t.cpp": '#include "comm/c_impl.hpp"\n#include "fabric/f_impl.hpp"\n'
                            '#include "weft/task/t.hpp"\n',
        "bench/comm/b.cpp": '#include "comm/c_impl.hpp"\n#include "harness/h.hpp"\n',
    }
    planted = {
        "up": ("src/base/x.cpp", '#include "weft/comm/c.hpp"\n'),
        "up, private": ("src/fabric/x.cpp", '#include "comm/c_impl.hpp"\n'),
        "up, with brackets and blanks": ("src/base/x.cpp", "#  include <weft/fabric/f.hpp>\n"),
        "up, from a public header": ("include/weft/base/x.hpp", '#include "weft/comm/c.hpp"\n'),
        "up, to the umbrella": ("src/comm/x.cpp", '#include "weft/weft.hpp"\n'),
        "sideways": ("src/task/x.cpp", '#include "weft/fabric/f.hpp"\n'),
        "sideways, back": ("src/fabric/x.cpp", '#include "task/t.hpp"\n'),
        "private from public": ("include/weft/comm/x.hpp", '#include "comm/c_impl.hpp"\n'),
        "private from an example": ("examples/x.cpp", '#include "comm/c_impl.hpp"\n'),
        "a room outside the table": ("src/attic/x.cpp", "\n"),
        "the launcher on comm": ("tools/weftrun/x.cpp", '#include "weft/comm/c.hpp"\n'),
        "private from the graphs": ("tools/weft-graph/x.cpp", '#include "comm/c_impl.hpp"\n'),
        "a test, up": ("tests/fabric/x.cpp", '#include "weft/comm/c.hpp"\n'),
        "a test, sideways and private": ("tests/comm/x.cpp", '#include "task/t_impl.hpp"\n'),
        "a tool from a room": ("src/comm/x.cpp", '#include "tools/t.hpp"\n'),
        "a table that is upside down": ("cmake/Rooms.cmake", '"fabric:base"\n"base:"\n"comm:fabric,base"\n'),
    }
    findings = []

    def run(tree):
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check(root)[0]

    findings += [f"self-test: found in a good tree: {line}" for line in run(good)]
    for what, (path, text) in planted.items():
        found = run({**good, path: text})
        if not any(line.startswith(os.path.dirname(path)) for line in found):
            findings.append(f"self-test: not found: {what}")
    return findings, f"{len(planted)} planted violations"


if __name__ == "__main__":
    finish(*(self_test() if "--self-test" in sys.argv[1:] else check(ROOT)))

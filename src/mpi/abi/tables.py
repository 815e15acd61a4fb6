"""Reads functions.txt and constants.txt: the tables that all of the MPI interface is made from."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
STATES = {"t": "tested", "i": "implemented", "u": "unsupported"}
KEYWORDS = {"const", "void", "char", "int", "double"}
# Type of a parameter in the plain and in the large-count form: (type, array suffix) each.
TWO_FORMS = {
    "Count": (("int", ""), ("MPI_Count", "")),
    "Count*": (("int*", ""), ("MPI_Count*", "")),
    "Count&": (("int*", ""), ("MPI_Count*", "")),
    "Counts": (("const int", "[]"), ("const MPI_Count", "[]")),
    "Displs": (("const int", "[]"), ("const MPI_Aint", "[]")),
    "Addr": (("MPI_Aint", ""), ("MPI_Count", "")),
    "Addr*": (("MPI_Aint*", ""), ("MPI_Count*", "")),
    "Addrs": (("const MPI_Aint", "[]"), ("const MPI_Count", "[]")),
    "Disp": (("int", ""), ("MPI_Aint", "")),
    "Disp*": (("int*", ""), ("MPI_Aint*", "")),
}


def prefixed(text):
    """A C type with MPI's names whole again."""
    return re.sub(r"[A-Za-z_]\w*", lambda word: word[0] if word[0] in KEYWORDS else "MPI_" + word[0],
                  text)


def full_name(name):
    return name if name.startswith("MPIX_") else "MPI_" + name


class Parameter:
    def __init__(self, text):
        kind, self.name, self.array = re.fullmatch(r"(.*?)(\w+)((?:\[\d*\])*)", text).groups()
        self.kind = kind.strip()

    def declared(self, twin, large):
        """As C declares it."""
        if twin and self.kind in TWO_FORMS:
            kind, array = TWO_FORMS[self.kind][1 if large else 0]
        else:
            kind, array = prefixed(self.kind), self.array
        return f"{kind} {self.name}{array}"


class Function:
    def __init__(self, group, line):
        head, rest = line.split(":", 1)
        state, self.name, self.raises, flags = head.split()
        flags = set() if flags == "-" else set(flags.split(","))
        self.group, self.state = group, STATES[state]
        self.twin, self.any_time, self.old = "c" in flags, "any" in flags, "old" in flags
        self.two_servers = "two" in flags
        self.served_by = next((flag[1:] for flag in flags if flag[0] == "="), None)
        self.returns = None
        if " = " in f"{rest} ":
            kind, rest = f"{rest} ".split(" = ", 1)
            self.returns = prefixed(kind.strip())
        texts = [text.strip() for text in rest.split(",") if text.strip()]
        self.variadic = "..." in texts
        self.parameters = [Parameter(text) for text in texts if text != "..."]

    def names(self):
        return [self.name] + ([self.name + "_c"] if self.twin else [])

    def signature(self, prefix, large=False):
        declared = [p.declared(self.twin, large) for p in self.parameters]
        declared += ["..."] if self.variadic else []
        suffix = "_c" if large else ""
        return f"{self.returns or 'int'} {prefix}{self.name}{suffix}({', '.join(declared) or 'void'})"


def rows(file):
    """(section, line) of a table."""
    section = None
    with open(os.path.join(HERE, file), encoding="utf-8") as table:
        for line in table:
            line = line.split("#")[0] if line.startswith("#") else line.rstrip()
            if re.fullmatch(r"\[.*\]", line):
                section = line[1:-1]
            elif line:
                yield section, line


def functions():
    return [Function(group, line) for group, line in rows("functions.txt")]


def constants():
    """{section: [(name, value text)]}, in the table's order."""
    sections = {}
    for section, line in rows("constants.txt"):
        name, value = line.split(" = ", 1)
        sections.setdefault(section, []).append((name, value))
    return sections

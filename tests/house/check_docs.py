"""What the documents say is there: every `make` target, every relative link, every program shown,
and every `file:function` of docs/life-of-a-message.md.

A program is shown by a block of C++ that follows a line `<!-- shows: examples/x.cpp -->`; the two
must be the same, character by character.
"""
import os
import re

from house import ROOT, files_below, finish, read

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] + files_below(
    ROOT, "docs", suffixes=(".md",))
LIFE = "docs/life-of-a-message.md"
FEWEST_PLACES = 12

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"<!-- shows: (\S+) -->\n+```cpp\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
MAKE = re.compile(r"(?:`|^|&& )make ([a-z][a-z-]*)", re.MULTILINE)
TARGET = re.compile(r"^([a-z][a-z -]*):(?!=)", re.MULTILINE)
PLACE = re.compile(r"`([\w./-]+\.[ch]pp):([\w~:]+)`")

findings = []
targets = {name for line in TARGET.findall(read("Makefile")) for name in line.split()}
shown = []
for document in DOCUMENTS:
    text = read(document)
    for target in MAKE.findall(text):
        if target not in targets:
            findings.append(f"{document}: the Makefile has no target '{target}'")
    for link in LINK.findall(FENCE.sub("", text)):
        place = os.path.join(ROOT, os.path.dirname(document), link)
        if "://" not in link and not os.path.exists(place):
            findings.append(f"{document}: nothing at '{link}'")
    for path, program in SHOWN.findall(text):
        shown.append(path)
        if not os.path.isfile(os.path.join(ROOT, path)):
            findings.append(f"{document}: shows {path}, which is not there")
        elif read(path) != program:
            findings.append(f"{document}: its program is not the text of {path}")
if "README.md" in DOCUMENTS and not SHOWN.search(read("README.md")):
    findings.append("README.md: shows no program")


def check_place(path, function):
    if not os.path.isfile(os.path.join(ROOT, path)):
        return f"{LIFE}: no file {path}"
    text = read(path)
    for part in function.split("::"):
        if not re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text):
            return f"{LIFE}: {path} has no '{function}'"
    last = function.split("::")[-1]
    if not re.search(rf"(?<!\w){re.escape(last)}\s*(?:<[^;{{}}()]*>)?\s*\(", text):
        return f"{LIFE}: '{function}' is no function in {path}"
    return None


places = PLACE.findall(read(LIFE))
findings += [finding for finding in (check_place(*place) for place in places) if finding]
if len(places) < FEWEST_PLACES:
    findings.append(f"{LIFE}: names only {len(places)} places in the code")
finish(findings, f"{len(DOCUMENTS)} documents, {len(places)} places, {len(shown)} programs")

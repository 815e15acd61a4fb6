"""Rules that hold for every source: its length, how it opens, and where the environment is read."""
import os
import re

from house import ROOT, SOURCE_FOLDERS, files_below, finish, read

MOST_LINES = 800
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\bextern\s+char\s*\*\*\s*environ\b")
MAY_READ_ENVIRONMENT = {"src/base/config.cpp"}
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)

findings = []
files = files_below(ROOT, *SOURCE_FOLDERS)
for path in files:
    text = read(path)
    lines = text.count("\n")
    if lines > MOST_LINES:
        findings.append(f"{path}: {lines} lines; none may have more than {MOST_LINES}")
    # A source that begins with its own header is introduced by it.
    own_header = re.match(rf'#include "[\w/]*\b{re.escape(os.path.basename(path)[:-4])}\.hpp"', text)
    if not text.startswith("// ") and not own_header:
        findings.append(f"{path}: must open with a sentence that says what it is for")
    if path.endswith(".hpp") and "#pragma once" not in text:
        findings.append(f"{path}: no #pragma once")
    if path not in MAY_READ_ENVIRONMENT and not path.startswith("tests/"):
        if ENVIRONMENT.search(COMMENT_OR_STRING.sub("", text)):
            findings.append(f"{path}: reads the environment; use base::environment")
finish(findings, f"{len(files)} sources")

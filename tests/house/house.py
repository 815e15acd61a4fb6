"""What the checks of the house share: where things are, and how a finding is told."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE_FOLDERS = ("include", "src", "tools", "bench", "examples", "tests")


def read(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def files_below(root, *folders, suffixes=(".hpp", ".cpp")):
    """Paths relative to `root`, sorted, of the files below `folders` that end in `suffixes`."""
    found = []
    for folder in folders:
        for path, _, names in os.walk(os.path.join(root, folder)):
            found += [os.path.relpath(os.path.join(path, name), root)
                      for name in names if name.endswith(suffixes)]
    return sorted(found)


def finish(findings, checked):
    """Prints the findings and ends the process; `checked` says what was looked at."""
    for finding in findings:
        print(finding)
    print(f"{checked}: {len(findings)} finding(s)")
    sys.exit(1 if findings else 0)

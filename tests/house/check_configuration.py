"""docs/configuration.md is what the rooms' tables say; weft-info's other forms hold together.

  check_configuration.py WEFT_INFO [--write]      --write: bring the page up to date
"""
import json
import os
import re
import subprocess
import sys

from house import ROOT, finish, read

PAGE = "docs/configuration.md"
program = sys.argv[1]
clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}


def ask(*flags, **variables):
    done = subprocess.run([program, *flags], text=True, capture_output=True,
                          env={**clean, **variables}, check=True)
    return done.stdout, done.stderr


page = ask("--config", "--markdown")[0]
if "--write" in sys.argv[2:]:
    with open(os.path.join(ROOT, PAGE), "w", encoding="utf-8") as file:
        file.write(page)

findings = []
if read(PAGE) != page:
    findings.append(f"{PAGE} is not what the tables say; `make docs` brings it up to date")

# A value that comes from the environment changes neither the page nor the other keys.
if ask("--config", "--markdown", WEFT_LOG_LEVEL="info")[0] != page:
    findings.append("a value in the environment changed the page")
keys = {row["key"]: row for row in json.loads(ask("--config", "--json", WEFT_LOG_LEVEL="info")[0])}
row = keys.get("log.level", {})
if (row.get("value"), row.get("origin")) != ("info", "environment"):
    findings.append(f"--config --json does not show where log.level came from: {row}")
if not re.search(r"log\.level +info +environment", ask("--config", WEFT_LOG_LEVEL="info")[0]):
    findings.append("--config does not show where log.level came from")
for row in keys.values():
    if len(row["help"]) < 10 or not row["help"].endswith("."):
        findings.append(f"{row['key']}: its help is no sentence: '{row['help']}'")
    if f"`{row['variable']}`" not in page:
        findings.append(f"{row['key']}: not on the page")

# A typo is named, with what was meant; nonsense is refused.
if "WEFT_LOG_LEVEL?" not in ask("--config", WEFT_LOG_LEVLE="info")[1]:
    findings.append("an unknown variable is not warned of with the nearest key")
refused = subprocess.run([program], text=True, capture_output=True,
                         env={**clean, "WEFT_LOG_LEVEL": "loud"})
if refused.returncode == 0 or "WEFT_LOG_LEVEL" not in refused.stderr:
    findings.append("a value out of its range is not refused by name")

# What weft-info says of itself and the machine is one JSON object, and the same in text.
facts = json.loads(ask("--json")[0])
text = ask()[0]
for section in "build", "machine", "kernel", "transports", "configuration":
    if not facts.get(section):
        findings.append(f"weft-info --json has no '{section}'")
    for name in facts.get(section, {}):
        if f"  {name} " not in text:
            findings.append(f"weft-info does not print '{name}'")
finish(findings, f"{len(keys)} configuration keys")

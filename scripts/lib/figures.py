"""Figures of several repetitions: medians, ratios, how they are shown, and where they are stored."""
import dataclasses
import datetime
import json
import os
import platform
import re
import statistics
import subprocess

from lib.runs import ROOT, say


@dataclasses.dataclass
class Series:
    """What one setting did in one measure."""
    values: list = dataclasses.field(default_factory=list)
    fairness: list = dataclasses.field(default_factory=list)
    counters: dict = dataclasses.field(default_factory=dict)  # of the last run
    failed: str = ""

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None

    @property
    def spread(self):
        """Half the distance of the quartiles, as weft-bench has it."""
        if len(self.values) < 2:
            return 0
        quartiles = statistics.quantiles(self.values, n=4, method="inclusive")
        return (quartiles[2] - quartiles[0]) / 2

    @property
    def fair(self):
        return statistics.median(self.fairness) if self.fairness else None


def ratio(top, bottom):
    """The median of ratios taken repetition by repetition: what shifted, shifted both."""
    if not top or not bottom:
        return None
    ratios = [a / b for a, b in zip(top.values, bottom.values) if b]
    return statistics.median(ratios) if ratios else None


def number(value):
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def shown(series):
    if series is None:
        return "-"
    if series.median is None:
        return "failed"
    fair = "" if series.fair is None else f" ({series.fair:.2f})"
    return number(series.median) + fair


def reached(value, reach, lower):
    """What is to be reached, in words, and whether it was."""
    sign = "<=" if lower else ">="
    if value is None:
        return f"{sign} {reach:.3g} x", "not measured"
    good = value <= reach if lower else value >= reach
    return f"{sign} {reach:.3g} x", "yes" if good else "NO"


def origin(build):
    """What every line of a result carries, as weft-bench writes it."""
    done = subprocess.run([os.path.join(build, "bin", "weft-info"), "--json"], capture_output=True,
                          text=True)
    built = json.loads(done.stdout)["build"] if done.returncode == 0 else {}
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
    return {"commit": built.get("commit", "unknown"), "compiler": built.get("compiler", ""),
            "flags": f"{built.get('type', '')} {built.get('flags', '')}".strip(),
            "cpu": cpu.group(1) if cpu else platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "kernel": f"{platform.system()} {platform.release()}",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}


def security_of(build):
    """How weft protects what it sends between hosts, as this environment and its files have it: fabric.security."""
    done = subprocess.run([os.path.join(build, "bin", "weft-info"), "--config", "--json"], capture_output=True,
                          text=True)
    keys = json.loads(done.stdout) if done.returncode == 0 else []
    return next((each["value"] for each in keys if each["key"] == "fabric.security"), "unknown")


def store(lines, kind, facts, build, quick):
    """Writes them, `facts` in each, and returns where: bench/results/<cpu>-<kind>-<date>.json, or the build folder, if
    it was a quick run or nobody could build the same again."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", facts["cpu"]).strip("-") + "-" + kind
    folder = os.path.join(ROOT, "bench", "results")
    commit = facts["commit"]
    if commit in ("", "unknown") or commit.endswith("-dirty"):
        folder = os.path.join(build, "results")
        name += "-uncommitted"
        say(f"built from {commit or 'an unknown commit'}: results are not stored in bench/results")
    elif quick:
        folder = os.path.join(build, "results")
    os.makedirs(folder, exist_ok=True)
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%M")
    path = os.path.join(folder, f"{name}-{stamp}.json")
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line | facts) + "\n")
    return path

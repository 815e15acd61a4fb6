"""Each case of each GoogleTest program is run by some test of CTest, and each test runs some: what a filter forgets,
or does not find, is said by nobody else.

  check_cases.py BUILD
"""
import json
import os
import subprocess
import sys

from house import finish


def cases_of(command, environment):
    """The cases that `command` would run."""
    listed = subprocess.run([*command, "--gtest_list_tests"], env={**os.environ, **environment},
                            capture_output=True, text=True, check=True).stdout
    suite, cases = "", set()
    for line in listed.splitlines():
        word = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = word if word.endswith(".") else ""
        elif suite:
            cases.add(suite + word)
    return cases


def main():
    build = os.path.realpath(sys.argv[1])
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True,
                            check=True).stdout
    run, findings = {}, []
    for test in json.loads(listed)["tests"]:
        if "command" not in test:
            findings.append(f"{test['name']}: its program is not built")
            continue
        program, *arguments = test["command"]
        if not os.path.basename(program).endswith(("_test", "_stress")):
            continue
        settings = [setting for property in test["properties"] if property["name"] == "ENVIRONMENT"
                    for setting in property["value"]]
        environment = dict(setting.split("=", 1) for setting in settings)
        cases = cases_of([program, *arguments], environment)
        if not cases:
            findings.append(f"{test['name']} runs no case")
        run.setdefault(program, set()).update(cases)
    checked = 0
    for program, cases in sorted(run.items()):
        all_cases = cases_of([program], {})
        checked += len(all_cases)
        findings += [f"{os.path.basename(program)}: {case} is run by no test of CTest"
                     for case in sorted(all_cases - cases)]
    finish(findings if checked else ["no case was found"], f"{checked} cases of {len(run)} programs")


if __name__ == "__main__":
    main()

"""Compares the tests that were skipped with those that were expected to be.

    skips.py RESULTS EXPECTED

RESULTS is a folder with the XML files that gtest programs and CTest wrote. EXPECTED lists patterns, one a line,
`Suite.Test` or `ctest:name`, with a reason after '#'. A skip that is not listed is a failure: a wall that was
not tested is not known to stand. A pattern that skips nothing is only mentioned, because another host may need it.
"""

import fnmatch
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def reason_of(case):
    element = case.find("skipped")
    if element is None:
        return ""
    text = element.get("message") or element.text or ""
    # gtest begins with the whole path of the source line; the file's name is enough to find it.
    return " ".join(re.sub(r"^\S*/(\S+:\d+)", r"\1", text.strip()).split())


def skipped_in(text, prefix):
    """(name, reason) of each skipped case of one JUnit-like file."""
    for case in ElementTree.fromstring(text).iter("testcase"):
        is_skip = case.find("skipped") is not None or case.get("result") == "skipped"
        if is_skip and case.get("status") != "disabled":
            name = case.get("name", "")
            yield (f"ctest:{name}" if prefix else f"{case.get('classname')}.{name}"), reason_of(case)


def load_results(folder):
    """Reads every file; returns the number of cases and the skipped ones."""
    cases, skipped = 0, []
    for path in sorted(folder.glob("*.xml")):
        text = path.read_text(encoding="utf-8", errors="replace")
        cases += len(list(ElementTree.fromstring(text).iter("testcase")))
        skipped += skipped_in(text, path.name == "ctest.xml")
    return cases, sorted(set(skipped))


def expected_patterns(text):
    lines = (line.split("#", 1)[0].strip() for line in text.split("\n"))
    return [line for line in lines if line]


def judge(skipped, patterns):
    """(expected, unexpected, unused patterns)"""
    expected, unexpected, used = [], [], set()
    for name, reason in skipped:
        matching = [pattern for pattern in patterns if fnmatch.fnmatchcase(name, pattern)]
        used.update(matching)
        (expected if matching else unexpected).append((name, reason))
    return expected, unexpected, [pattern for pattern in patterns if pattern not in used]


def show(title, skipped):
    if skipped:
        print(f"\n{title}:")
        for name, reason in skipped:
            print(f"  {name}  {reason}")


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} RESULTS EXPECTED")
    results, expected_file = Path(sys.argv[1]), Path(sys.argv[2])
    cases, skipped = load_results(results)
    if cases == 0:
        sys.exit(f"{results} holds no test results: nothing was tested")
    patterns = expected_patterns(expected_file.read_text(encoding="utf-8"))
    expected, unexpected, unused = judge(skipped, patterns)
    show("SKIPPED, as expected here", expected)
    show("SKIPPED, and nobody expected it", unexpected)
    if unused:
        print("\nnot skipped here, though they may be elsewhere: " + " ".join(unused))
    print(f"\n{cases} results, {len(skipped)} skipped, {len(unexpected)} of them unexpected")
    if unexpected:
        sys.exit(1)


if __name__ == "__main__":
    main()

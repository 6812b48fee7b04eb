"""A promise names its test. Each row of docs/SECURITY.md that begins with a promise's number,

    | P1 | No host file is readable … | tests/security/p01_host_files_test.cc |

names one file of the tree or more, separated by commas, and each security test is named by some row: p01_thing_test.cc,
and p32_thing.py, which attacks a living server.
"""

import re

import tree

ROW = re.compile(r"^\|\s*\**(P\d+)\**\s*\|(.*)\|\s*$")
TEST = re.compile(r"(?:tests|src)/[\w./-]+\.(?:cc|py|sh)")
ATTACK = re.compile(r"p\d\d_\w+\.py")
DOCUMENT = "docs/SECURITY.md"


def rows(text):
    """(line, number, tests named in the last cell) of each promise."""
    for number, line in enumerate(text.split("\n"), 1):
        match = ROW.match(line)
        if match:
            cells = match.group(2).split("|")
            yield number, match.group(1), TEST.findall(cells[-1])


def check(root):
    document = root / DOCUMENT
    if not document.exists():
        return [f"{DOCUMENT} is missing: promises are written there"]
    complaints, named, seen = [], set(), set()
    for line, promise, tests in rows(document.read_text(encoding="utf-8")):
        where = f"{DOCUMENT}:{line}: {promise}"
        if promise in seen:
            complaints.append(f"{where} is promised twice")
        seen.add(promise)
        if not tests:
            complaints.append(f"{where} names no test: a promise without a test is a wish")
        for test in tests:
            named.add(test)
            if not (root / test).is_file():
                complaints.append(f"{where} names {test}, which does not exist")
    if not seen:
        complaints.append(f"{DOCUMENT}: no row begins with a promise's number")
    for path in tree.files(root, tree.CODE_SUFFIXES | {".py"}, ("tests/security",)):
        is_test = path.stem.endswith("_test") or ATTACK.fullmatch(path.name)
        if is_test and path.as_posix() not in named:
            complaints.append(f"{path}: no promise of {DOCUMENT} names this test")
    return complaints


if __name__ == "__main__":
    tree.main(check)

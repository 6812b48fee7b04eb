"""What the rules of the house share: which files there are, and their text without comments and strings.

A rule is a module with `check(root) -> list of complaints`. An empty list means that the rule holds. Each
module is also a program: `rule.py ROOT` prints the complaints and ends with 1 when there is one.
"""

import re
import sys
from pathlib import Path

CODE_SUFFIXES = {".cc", ".h", ".c", ".S"}
SCRIPT_SUFFIXES = {".py", ".sh", ".cmake"}
CODE_FOLDERS = ("src", "tests", "bench", "sdk")
# What interpreters and package managers leave beside the sources.
NOT_OURS = {"__pycache__", "node_modules"}

# A comment, a raw string, a string or a character: whichever begins first decides what the rest means.
_TOKEN = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def files(root, suffixes, folders=CODE_FOLDERS):
    """Every file below the folders with one of the suffixes, sorted, as paths relative to root."""
    found = []
    for folder in folders:
        for path in (root / folder).rglob("*"):
            if path.suffix in suffixes and path.is_file() and not NOT_OURS & set(path.parts):
                found.append(path.relative_to(root))
    return sorted(found)


def code_files(root, folders=CODE_FOLDERS):
    return files(root, CODE_SUFFIXES, folders)


def read(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace")


def without_comments_and_strings(text):
    """The same number of lines, with comments and the insides of strings blanked out."""

    def blank(match):
        token = match.group(0)
        lines = "\n" * token.count("\n")
        return lines if token.startswith("/") else '""' + lines

    return _TOKEN.sub(blank, text)


def without_comments(text):
    """The same number of lines; strings stay, so that `#include "x.h"` does."""

    def blank(match):
        token = match.group(0)
        return "\n" * token.count("\n") if token.startswith("/") else token

    return _TOKEN.sub(blank, text)


def includes(text):
    """(line, name, is_system) of each include that the compiler sees."""
    clean = without_comments(text)
    for match in _INCLUDE.finditer(clean):
        line = clean.count("\n", 0, match.start()) + 1
        yield line, match.group(1) or match.group(2), match.group(2) is not None


def main(check):
    """Runs one rule as a program."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} ROOT")
    complaints = check(Path(sys.argv[1]).resolve(), *sys.argv[2:])
    for complaint in complaints:
        print(complaint)
    if complaints:
        sys.exit(f"{len(complaints)} complaints")

"""The child between clone and execve allocates nothing, locks nothing and throws nothing. Its object file shows
it: the symbols it leaves to others are on a short list, one name a line with the reason behind a '#'.

    child_symbols.py LIST OBJECT…
"""

import subprocess
import sys
from pathlib import Path


def allowed_symbols(text):
    names = set()
    for line in text.split("\n"):
        name = line.split("#", 1)[0].strip()
        if name:
            names.add(name)
    return names


def undefined_symbols(nm_output):
    """Names in the output of `nm -u -P`: one a line, followed by a 'U' (or 'w' for a weak one)."""
    return {line.split()[0] for line in nm_output.split("\n") if line.strip() and not line.endswith(":")}


def complaints(allowed, undefined, where):
    return [f"{where}: needs '{name}', which is not on the list" for name in sorted(undefined - allowed)]


def main():
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} LIST OBJECT…")
    allowed = allowed_symbols(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = []
    for name in sys.argv[2:]:
        nm = subprocess.run(["nm", "-u", "-P", name], check=True, capture_output=True, text=True)
        undefined = undefined_symbols(nm.stdout)
        if not undefined:
            sys.exit(f"{name}: no undefined symbol at all: this is not the child's object")
        found += complaints(allowed, undefined, Path(name).name)
    for line in found:
        print(line)
    if found:
        sys.exit("the child zone calls what it must not, or tests/house/child-symbols.txt lacks a harmless call")


if __name__ == "__main__":
    main()

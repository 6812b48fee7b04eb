"""Makes the client for threads out of the one for asyncio: src/caisson/_sync from src/caisson/_async, word by word.

    python3 generate_sync.py            writes what has changed
    python3 generate_sync.py --check    writes nothing, and ends with 1 when a file is out of date
"""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "caisson"
BY_HAND = {"__init__.py", "link.py"}
MARK = "# Made from _async/{name} by generate_sync.py: change it there.\n"
WORDS = [
    (r"\basync (?=def|with|for)", ""),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\b__a(?=(enter|exit|iter|next)__)", "__"),
    (r"\basyncio\b", "threads"),
]


def made_from(text, name):
    for pattern, word in WORDS:
        text = re.sub(pattern, word, text)
    return MARK.format(name=name) + text


def main():
    check = "--check" in sys.argv[1:]
    stale = []
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        if source.name in BY_HAND:
            continue
        target = PACKAGE / "_sync" / source.name
        text = made_from(source.read_text(encoding="utf-8"), source.name)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            stale.append(target.name)
            if not check:
                target.write_text(text, encoding="utf-8")
    names = [{one.name for one in (PACKAGE / folder).glob("*.py")} for folder in ("_sync", "_async")]
    extra = names[0] - names[1]
    if check and (stale or extra):
        sys.exit(f"out of date: {', '.join(stale + sorted(extra))}; run: python3 sdk/python/generate_sync.py")


if __name__ == "__main__":
    main()

"""What is left out is refused with a clear error and documented; it is not a note to a later reader."""

import re

import tree

# Spelled in pieces, so that this file does not find itself.
MARK = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
FOLDERS = (*tree.CODE_FOLDERS, "cmake", "docs", "deploy", ".ci", "api")
SUFFIXES = tree.CODE_SUFFIXES | tree.SCRIPT_SUFFIXES | {".txt", ".md", ".yaml", ".proto", ".ts", ""}


def check(root):
    complaints = []
    top = [path.relative_to(root) for path in sorted(root.iterdir()) if path.is_file()]
    for path in top + tree.files(root, SUFFIXES, FOLDERS):
        if "corpus" in path.parts:
            continue
        for number, line in enumerate(tree.read(root, path).split("\n"), 1):
            mark = MARK.search(line)
            if mark:
                complaints.append(f"{path}:{number}: {mark.group(1)}: do it, refuse it, or document it")
    return complaints


if __name__ == "__main__":
    tree.main(check)

"""A file holds one idea. At 600 lines there is a second noun in it: give that noun a file of its own."""

import tree

LINES_MAX = 600


def check(root):
    complaints = []
    for path in tree.files(root, tree.CODE_SUFFIXES | tree.SCRIPT_SUFFIXES):
        lines = tree.read(root, path).count("\n")
        if lines > LINES_MAX:
            complaints.append(f"{path}: {lines} lines, at most {LINES_MAX}")
    return complaints


if __name__ == "__main__":
    tree.main(check)

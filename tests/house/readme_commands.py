"""A reader copies commands out of the README. Each `./dev word` and `caisson word` in it exists, and so does
each file it points at.
"""

import re

import tree

DEV = re.compile(r"\./dev +([a-z]+)")
COMMAND = re.compile(r"^(?:\$ |sudo |# )*(?:\S*/)?caisson +([a-z]+)\b", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def dev_verbs(root):
    """The verbs that ./dev has a function for."""
    return set(re.findall(r"^cmd_([a-z]+)\(\)", (root / "dev").read_text(encoding="utf-8"), re.MULTILINE))


def caisson_words(root):
    """The words in quotes of the command line's sources: every sub-command is one of them."""
    words = set()
    for path in tree.code_files(root, ("src/cli", "src/main")):
        words.update(re.findall(r'"([a-z]+)"', tree.read(root, path)))
    return words


def check(root):
    complaints = []
    readme = root / "README.md"
    if not readme.exists():
        return ["README.md is missing"]
    text = readme.read_text(encoding="utf-8")
    have = dev_verbs(root)
    for verb in sorted(set(DEV.findall(text)) - have):
        complaints.append(f"README.md: ./dev {verb}: there is no such command")
    known = caisson_words(root)
    for block in FENCE.findall(text):
        for verb in sorted(set(COMMAND.findall(block)) - known):
            complaints.append(f"README.md: caisson {verb}: src/cli has no such command")
    for target in sorted(set(LINK.findall(text))):
        if not (root / target).exists():
            complaints.append(f"README.md: {target} does not exist")
    return complaints


if __name__ == "__main__":
    tree.main(check)

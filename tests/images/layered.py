"""Nineteen tiny layers above a base, one idea each, and what must be left of them.

EXPECTED is written by hand from the specification of images, not computed from the layers: it is the judge of whoever
unpacks them, and kit_test.py shows that other tools agree.
"""

import stat

from layout import Layer

LONG = "tree/" + "long-" * 38 + "name"
ODD = "tree/a name with spaces, ümlauts and\na line"
TIME = 1_234_567_890

FOLDER, FILE, LINK = stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK


def first():
    layer = Layer().folder("tree")
    for name in ("keep", "gone", "changed", "turn"):
        layer.file(f"tree/{name}", name.encode())
    for folder in ("folder", "back", "moved", "both", "emptied", "deep", "deep/er", "plain"):
        layer.folder(f"tree/{folder}")
    for name in ("folder/a", "folder/b", "back/x", "moved/x", "both/x", "emptied/x", "deep/er/file", "plain/x"):
        layer.file(f"tree/{name}", b"first")
    layer.link("tree/link", "keep").link("tree/away", "/nowhere/at/all")
    return layer


def layers():
    """From the lowest to the highest."""
    return [
        first(),
        # A file is removed, another one has new bytes.
        Layer().remove("tree/gone").file("tree/changed", b"second"),
        # The marker comes after a sibling of its own layer, which stays.
        Layer().folder("tree/folder").file("tree/folder/new", b"new").opaque("tree/folder"),
        # A whole folder is removed …
        Layer().remove("tree/deep"),
        # … and comes back without what was in it.
        Layer().folder("tree/deep").file("tree/deep/again", b"again"),
        # A file becomes a folder; a folder becomes a file.
        Layer().folder("tree/turn").file("tree/turn/inside", b"inside"),
        Layer().remove("tree/back").file("tree/back", b"a file now"),
        # A link becomes a file, and what it pointed to is not written through it.
        Layer().file("tree/link", b"no link"),
        # A folder becomes a link.
        Layer().remove("tree/moved").link("tree/moved", "folder"),
        # Removed and made again in one layer: only what this layer brings is there.
        Layer().remove("tree/both").folder("tree/both").file("tree/both/y", b"y"),
        # Hidden, and nothing instead.
        Layer().folder("tree/emptied").opaque("tree/emptied"),
        Layer().file("tree/one", b"shared").hard_link("tree/two", "tree/one"),
        Layer().file("tree/private", b"owner", mode=0o640, uid=1000, gid=1001).folder("tree/sticky", mode=0o1777),
        Layer().file("tree/old", b"old", mtime=TIME),
        Layer().file("tree/marked", b"marked", xattrs={"user.colour": "blue"}),
        Layer().file(LONG, b"long").file(ODD, b"odd"),
        # Nothing was there.
        Layer().remove("tree/never").remove("tree/plain/never"),
        # Only the folder's own mode; its files stay.
        Layer().folder("tree/plain", mode=0o750).file("tree/short-lived", b"until the next layer"),
        Layer("").remove("tree/short-lived").file("tree/last", b"last"),
    ]


# path → (kind, permissions, content or target; None for a folder)
EXPECTED = {
    "tree": (FOLDER, 0o755, None),
    "tree/keep": (FILE, 0o644, b"keep"),
    "tree/changed": (FILE, 0o644, b"second"),
    "tree/away": (LINK, 0o777, b"/nowhere/at/all"),
    "tree/folder": (FOLDER, 0o755, None),
    "tree/folder/new": (FILE, 0o644, b"new"),
    "tree/deep": (FOLDER, 0o755, None),
    "tree/deep/again": (FILE, 0o644, b"again"),
    "tree/turn": (FOLDER, 0o755, None),
    "tree/turn/inside": (FILE, 0o644, b"inside"),
    "tree/back": (FILE, 0o644, b"a file now"),
    "tree/link": (FILE, 0o644, b"no link"),
    "tree/moved": (LINK, 0o777, b"folder"),
    "tree/both": (FOLDER, 0o755, None),
    "tree/both/y": (FILE, 0o644, b"y"),
    "tree/emptied": (FOLDER, 0o755, None),
    "tree/one": (FILE, 0o644, b"shared"),
    "tree/two": (FILE, 0o644, b"shared"),
    "tree/private": (FILE, 0o640, b"owner"),
    "tree/sticky": (FOLDER, 0o1777, None),
    "tree/old": (FILE, 0o644, b"old"),
    "tree/marked": (FILE, 0o644, b"marked"),
    LONG: (FILE, 0o644, b"long"),
    ODD: (FILE, 0o644, b"odd"),
    "tree/plain": (FOLDER, 0o750, None),
    "tree/plain/x": (FILE, 0o644, b"first"),
    "tree/last": (FILE, 0o644, b"last"),
}
SAME_FILE = ("tree/one", "tree/two")
OWNERS = {"tree/private": (1000, 1001), "tree/keep": (0, 0)}
TIMES = {"tree/old": TIME}
XATTRS = {"tree/marked": {"user.colour": b"blue"}}

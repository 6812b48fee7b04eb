"""Each room has a sign on the door: its main header opens with what the room does and what it never knows."""

import tree

# Folders that hold no library of their own, or whose door is a program.
WITHOUT = {"main"}
# Folders whose rooms are their sub-folders.
OF_ROOMS = {"guest", "doors", "egress"}
SIGN_LINES_MIN = 2


def rooms(root):
    """The folder of each room that holds code."""
    for folder in sorted((root / "src").iterdir()):
        if not folder.is_dir() or folder.name in WITHOUT:
            continue
        for room in sorted(folder.iterdir()) if folder.name in OF_ROOMS else [folder]:
            if room.is_dir() and (any(room.rglob("*.cc")) or any(room.rglob("*.h"))):
                yield room


def sign(text):
    """The comment at the top of a header, as lines."""
    lines = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        lines.append(line)
    return lines


def check(root):
    complaints = []
    for room in rooms(root):
        header = room / f"{room.name}.h"
        where = header.relative_to(root)
        if not header.exists():
            complaints.append(f"{where}: the room has no main header")
            continue
        lines = sign(header.read_text(encoding="utf-8"))
        text = " ".join(lines)
        if len(lines) < SIGN_LINES_MIN:
            complaints.append(f"{where}: begins without a sign: what it does, where to start, what it never knows")
        elif "never" not in text.lower():
            complaints.append(f"{where}: the sign does not say what never belongs here")
        elif not lines[0].startswith(f"// {room.relative_to(root / 'src').as_posix()}"):
            complaints.append(f"{where}: the sign begins with the room's name")
    return complaints


if __name__ == "__main__":
    tree.main(check)

"""Dependencies point one way: main → doors, cli → control → engine, egress, image, store → http →
guest/protocol, policy, sys → base. Folders on one step do not know each other. The rule holds for the `#include`s, for the
link lines, and between the two: what a room includes, it links.
"""

import re

import tree

# The step of each room. A room may use rooms of a lower step only.
STEPS = {
    "base": 0,
    "guest/boot_blob": 1,
    "guest/carrier_blob": 1,
    "guest/init_blob": 1,
    "guest/layer_blob": 1,
    "guest/protocol": 1,
    "policy": 1,
    "sys": 1,
    "http": 2,
    "engine": 3,
    "egress": 3,
    "image": 3,
    "store": 3,
    "control": 4,
    "cli": 5,
    "doors": 5,
    "main": 6,
}
# The guest's init lives on the wrong side of the wall, without the C++ library: it shares only the protocol. The program
# that works on layers lives there too, and has the library's base.
ONLY = {
    "guest/boot": {"guest/protocol"},
    "guest/boot_blob": set(),
    "guest/carried": {"guest/protocol"},
    "guest/carrier": {"guest/carried", "guest/protocol"},
    "guest/carrier_blob": set(),
    "guest/init": {"guest/carried", "guest/protocol"},
    "guest/init_blob": set(),
    "guest/layer": {"base", "guest/protocol"},
    "guest/layer_blob": set(),
    "guest/protocol": set(),
}
# A linked program as bytes is data for the host's side, though it is made in the program's folder: room → where.
BLOB_PATHS = {
    "guest/boot_blob": ("guest/boot_blob.h", "guest/boot/blob/"),
    "guest/carrier_blob": ("guest/carrier_blob.h", "guest/carrier/blob/"),
    "guest/init_blob": ("guest/init_blob.h", "guest/init/blob/"),
    "guest/layer_blob": ("guest/layer_blob.h", "guest/layer/blob/"),
}
BLOB_TARGETS = {
    "caisson_boot_blob": "guest/boot_blob",
    "caisson_carrier_blob": "guest/carrier_blob",
    "caisson_init_blob": "guest/init_blob",
    "caisson_layer_blob": "guest/layer_blob",
}
BAD_NAMES = {"util", "utils", "common", "helpers", "misc"}

_CALL = re.compile(r"\b(caisson_room|add_library|add_executable|target_link_libraries)\s*\(([^()]*)\)")


def room_of(path):
    """The room of a path below src: "engine", "guest/init"; None for a file in src itself."""
    parts = path.split("/")
    for room, places in BLOB_PATHS.items():
        if path.startswith(places):
            return room
    if len(parts) < 2:
        return None
    return "/".join(parts[:2]) if parts[0] == "guest" else parts[0]


def may_use(user, used):
    if user == used:
        return True
    if user in ONLY:
        return used in ONLY[user]
    return used in STEPS and user in STEPS and STEPS[used] < STEPS[user]


def include_edges(root):
    """(file, line, room, included room) for each project include of src."""
    for path in tree.code_files(root, ("src",)):
        inside = path.relative_to("src").as_posix()
        user = room_of(inside)
        for line, name, is_system in tree.includes(tree.read(root, path)):
            if is_system:
                continue
            used = room_of(name)
            if used is None and (root / path).parent.joinpath(name).exists():
                used = user
            yield path, line, user, used, name


def link_graph(root):
    """(target → folder, target → targets it links) as the CMakeLists.txt files of src say."""
    home, links = {}, {}
    for path in sorted((root / "src").rglob("CMakeLists.txt")):
        folder = room_of(path.parent.relative_to(root / "src").as_posix() + "/x")
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
        for call, arguments in _CALL.findall(text):
            words = arguments.split()
            if not words:
                continue
            target = f"caisson_{words[0]}" if call == "caisson_room" else words[0]
            if call != "target_link_libraries":
                home.setdefault(target, BLOB_TARGETS.get(target, folder))
            if call in ("caisson_room", "target_link_libraries"):
                used = [word for word in words[1:] if word.startswith("caisson")]
                links.setdefault(target, set()).update(used)
    return home, links


def reachable(target, links):
    seen, todo = set(), [target]
    while todo:
        for used in links.get(todo.pop(), ()):
            if used not in seen:
                seen.add(used)
                todo.append(used)
    return seen


def check_names(root):
    for folder in sorted(path for path in (root / "src").rglob("*") if path.is_dir()):
        name = folder.relative_to(root).as_posix()
        if folder.name in BAD_NAMES:
            yield f"{name}: a room is named after what it does, never '{folder.name}'"
    for path in tree.code_files(root, ("src",)):
        room = room_of(path.relative_to("src").as_posix())
        if room not in STEPS and room not in ONLY:
            yield f"{path}: '{room}' has no step in tests/house/layering.py"


def check_includes(root):
    for path, line, user, used, name in include_edges(root):
        if used is None or (used not in STEPS and used not in ONLY):
            yield f'{path}:{line}: "{name}" names no room: write "room/file.h"'
        elif not may_use(user, used):
            yield f"{path}:{line}: {user} may not include {used} ({name})"


def check_links(root):
    home, links = link_graph(root)
    for target, used_targets in sorted(links.items()):
        for used in sorted(used_targets):
            if target in home and used in home and not may_use(home[target], home[used]):
                yield f"src/{home[target]}/CMakeLists.txt: {target} may not link {used}"
    linked = {}  # room → rooms that any target of it links, directly or not
    for target, folder in home.items():
        rooms = {home[used] for used in reachable(target, links) if used in home}
        linked.setdefault(folder, set()).update(rooms)
    for path, line, user, used, name in include_edges(root):
        if used in (None, user) or user not in linked or used in linked[user]:
            continue
        if used in home.values():
            yield f"{path}:{line}: {user} includes {name} but does not link {used}"


def check(root):
    return [*check_names(root), *check_includes(root), *check_links(root)]


if __name__ == "__main__":
    tree.main(check)

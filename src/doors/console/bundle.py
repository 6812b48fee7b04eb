"""Puts the files of the console together, as bundle.h reads them.

    bundle.py pack FOLDER BUNDLE
    bundle.py build SOURCES WORK BUNDLE

`pack` takes a folder as it is. `build` first makes that folder: the sources are copied to WORK, npm fetches what the lock
file names, and Vite builds there. So nothing is written into the tree of the sources, and a second build fetches nothing
while the lock file is the same.
"""

import filecmp
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
# What Vite calls assets/index-Bx81Kq_2.js: the name changes with the content.
HASHED = re.compile(r"assets/.*-[\w-]{8,}\.\w+$")
# What a developer has in the sources, and no build needs.
LEFT_OUT = {"node_modules", "dist", ".vite"}
# The lock file whose packages are there.
FETCHED = Path("fetched")


def line_of(folder, path):
    """(a line of the table, the compressed bytes) of one file."""
    name = path.relative_to(folder).as_posix()
    kind = TYPES.get(path.suffix)
    if kind is None:
        sys.exit(f"bundle.py: {name}: nobody has said which type '{path.suffix}' is: add it to TYPES")
    content = path.read_bytes()
    # No name and no time inside: the same sources give the same program.
    small = gzip.compress(content, 9, mtime=0)
    digest = hashlib.sha256(content).hexdigest()[:32]
    age = "hashed" if HASHED.match(name) else "page"
    return f"/{name}\t{kind}\t{age}\t{digest}\t{len(content)}\t{len(small)}\n", small


def pack(folder, bundle):
    files = [line_of(folder, path) for path in sorted(folder.rglob("*")) if path.is_file()]
    table = "".join(line for line, _ in files)
    content = f"caisson console 1\n{table}\n".encode() + b"".join(small for _, small in files)
    bundle.parent.mkdir(parents=True, exist_ok=True)
    fresh = bundle.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(bundle)


def run(*words, folder):
    # npm must not ask, tell or look for a newer one of itself.
    env = {**os.environ, "CI": "1", "NO_UPDATE_NOTIFIER": "1", "npm_config_update_notifier": "false"}
    done = subprocess.run(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nbundle.py: '{' '.join(words)}' failed in {folder}")


def files_of(folder):
    """Names of the files below a folder, without what is left out."""
    for top, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in LEFT_OUT]
        for name in names:
            yield Path(top, name).relative_to(folder)


def copy_sources(sources, work):
    """WORK then holds what SOURCES does, beside what builds have made there."""
    wanted = set(files_of(sources))
    for name in wanted:
        target = work / name
        if not target.exists() or not filecmp.cmp(sources / name, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources / name, target)
    for name in set(files_of(work)) - wanted - {FETCHED}:
        (work / name).unlink()


def fetch(work):
    lock, fetched = work / "package-lock.json", work / FETCHED
    if fetched.exists() and filecmp.cmp(lock, fetched, shallow=False):
        return
    fetched.unlink(missing_ok=True)
    # Scripts of packages do not run: nobody here has read them.
    run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=work)
    shutil.copyfile(lock, fetched)


def build(sources, work, bundle):
    work.mkdir(parents=True, exist_ok=True)
    copy_sources(sources, work)
    fetch(work)
    shutil.rmtree(work / "dist", ignore_errors=True)
    run("npm", "run", "build", folder=work)
    pack(work / "dist", bundle)


def main():
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == "pack":
        pack(Path(words[1]), Path(words[2]))
    elif len(words) == 4 and words[0] == "build":
        build(*(Path(word) for word in words[1:]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

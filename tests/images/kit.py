#!/usr/bin/env python3
"""Small images for tests and demos, made here out of Debian packages; nothing comes from a registry.

    tests/images/kit.py [NAME…] [--push HOST:PORT]

busybox  one static program and its links: under 3 MB, one layer
debian   bash, coreutils and friends: two layers, gzip and zstd
python   debian and Python, a user `app`, and an environment that a sandbox has to honour
layered  twenty tiny layers that remove, replace and hide what is below; layered.py says what must be left
large    300 MB of the host's own /usr in four layers, for the benchmark

Prints the folder of each, an OCI layout with the tag `1`. They are kept in a cache (CAISSON_IMAGES, or
caisson-images below the user's cache) under a name that follows from what is in them.
"""

import argparse
import contextlib
import fcntl
import functools
import hashlib
import io
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import layered  # noqa: E402
from layout import Layer, Layout  # noqa: E402
from packages import Apt, PackageLayer  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = ("kit.py", "layered.py", "layout.py", "packages.py")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUSYBOX = ("busybox-static",)
# usr-is-merged keeps apt from choosing usrmerge, which needs all of Perl.
DEBIAN = ("bash", "coreutils", "dash", "base-files", "base-passwd", "usr-is-merged")
DEBIAN_TOOLS = ("debianutils", "diffutils", "findutils", "grep", "gzip", "hostname", "mawk", "ncurses-base",
                "perl-base", "procps", "sed", "tar")
PYTHON = ("python3",)
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"
LARGE_BYTES, LARGE_LAYERS, LARGE_FILE_BYTES_MAX = 300_000_000, 4, 20_000_000
UNUSED_DAYS_MAX = 14


def cache_folder():
    named = os.environ.get("CAISSON_IMAGES")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(named or pathlib.Path(home, "caisson-images"))


# ---------------------------------------------------------------------------------------------------------------------
# The recipes. Each has `key`, text that changes when the image would, and write(Layout) → descriptor.


def skeleton(layer, passwd=PASSWD, group=GROUP):
    """What every root has, whatever its packages brought."""
    for name in "etc usr usr/bin usr/sbin usr/lib usr/lib64 var proc sys dev run".split():
        layer.folder(name)
    layer.folder("root", mode=0o700)
    layer.folder("tmp", mode=0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        layer.link(name, f"usr/{name}")
    return layer.file("etc/passwd", passwd.encode()).file("etc/group", group.encode())


class Recipe:
    def __init__(self, apt):
        self.apt = apt
        self.prepare()

    def prepare(self):
        self.key = ""

    def write(self, made):
        raise NotImplementedError


class Busybox(Recipe):
    def prepare(self):
        self.chosen = self.apt.choose(BUSYBOX)
        self.key = repr(self.chosen)

    def layer(self):
        layer = skeleton(PackageLayer(self.apt.fetch(self.chosen), only=r"usr/bin/busybox$"))
        for name in self.applets():
            layer.link(f"usr/bin/{name}", "busybox")
        return layer

    def applets(self):
        """Asked of the program itself, so that no name of a link is a lie."""
        with tempfile.TemporaryDirectory() as folder:
            for file in self.apt.fetch(self.chosen):
                subprocess.run(["dpkg-deb", "-x", file, folder], check=True)
            program = next(one for one in (f"{folder}/bin/busybox", f"{folder}/usr/bin/busybox") if os.path.exists(one))
            listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
        return sorted(set(listed) - {"busybox", "init", "linuxrc"})

    def write(self, made):
        return made.image([self.layer()], {"Env": [f"PATH={PATH}"], "Cmd": ["sh"]})


class Debian(Recipe):
    def prepare(self):
        self.base = self.apt.choose(DEBIAN)
        both = self.apt.choose(DEBIAN + DEBIAN_TOOLS)
        self.tools = {name: version for name, version in both.items() if name not in self.base}
        self.key = repr((self.base, self.tools))

    def layers(self):
        base = skeleton(PackageLayer(self.apt.fetch(self.base)))
        base.link("usr/bin/sh", "dash")
        tools = PackageLayer(self.apt.fetch(self.tools), "zstd")
        tools.link("usr/bin/awk", "mawk")
        return [base, tools]

    def write(self, made):
        return made.image(self.layers(), {"Env": [f"PATH={PATH}"], "Cmd": ["bash"],
                                          "Labels": {"org.opencontainers.image.title": "debian kit"}})


class Python(Debian):
    def prepare(self):
        super().prepare()
        below = {**self.base, **self.tools}
        everything = self.apt.choose(DEBIAN + DEBIAN_TOOLS + PYTHON)
        self.python = {name: version for name, version in everything.items() if name not in below}
        self.key = repr((self.key, self.python))

    def layers(self):
        user = Layer()
        user.file("etc/passwd", (PASSWD + "app:x:1000:1000:app:/app:/bin/bash\n").encode())
        user.file("etc/group", (GROUP + "app:x:1000:\n").encode())
        user.folder("app", uid=1000, gid=1000)
        user.file("app/hello.py", b"print('hello')\n", uid=1000, gid=1000)
        return [*super().layers(), PackageLayer(self.apt.fetch(self.python)), user]

    def write(self, made):
        return made.image(self.layers(), {
            "User": "1000:1000", "WorkingDir": "/app", "Cmd": ["python3"],
            "Env": [f"PATH={PATH}", "PYTHONDONTWRITEBYTECODE=1", "LANG=C.UTF-8"],
            "ExposedPorts": {"8000/tcp": {}}, "Labels": {"org.opencontainers.image.title": "python kit"}})


class Layered(Busybox):
    def write(self, made):
        return made.image([self.layer(), *layered.layers()], {"Env": [f"PATH={PATH}"], "Cmd": ["sh"]})


class HostFiles(Layer):
    """Files of the host, as they are."""

    def __init__(self, paths):
        super().__init__()
        self.paths = paths

    def write(self, tar):
        made = set()
        for path in self.paths:
            for parent in reversed(pathlib.PurePath(path).parents[:-1]):
                if parent not in made:
                    made.add(parent)
                    tar.addfile(Layer().folder(str(parent).lstrip("/")).entries[0][0])
            with open(path, "rb") as file:
                content = file.read(LARGE_FILE_BYTES_MAX)
            info = tarfile.TarInfo(path.lstrip("/"))
            info.size, info.mode = len(content), 0o755 if os.access(path, os.X_OK) else 0o644
            tar.addfile(info, io.BytesIO(content))


class Large(Recipe):
    """As much of /usr as it takes."""

    def prepare(self):
        self.files, total = [], 0
        for folder, names, files in os.walk("/usr"):
            names.sort()
            for name in sorted(files):
                path = os.path.join(folder, name)
                seen = os.lstat(path)
                if stat.S_ISREG(seen.st_mode) and 0 < seen.st_size <= LARGE_FILE_BYTES_MAX and total < LARGE_BYTES:
                    self.files.append((path, seen.st_size))
                    total += seen.st_size
        if total < LARGE_BYTES:
            raise RuntimeError(f"/usr holds {total} bytes, and the large image wants {LARGE_BYTES}")
        self.key = repr(self.files)

    def write(self, made):
        share, layers, size = LARGE_BYTES / LARGE_LAYERS, [[] for _ in range(LARGE_LAYERS)], 0
        for path, bytes_ in self.files:
            layers[min(int(size / share), LARGE_LAYERS - 1)].append(path)
            size += bytes_
        return made.image([HostFiles(paths) for paths in layers], {"Cmd": ["/bin/true"]})


RECIPES = {"busybox": Busybox, "debian": Debian, "python": Python, "layered": Layered, "large": Large}
USUAL = ("busybox", "debian", "python", "layered")


# ---------------------------------------------------------------------------------------------------------------------
# The cache.


@contextlib.contextmanager
def locked(folder):
    """Two tests that want one image at one time make it once."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def forget_old(cache, name):
    for one in cache.glob(f"{name}-*"):
        if time.time() - one.stat().st_mtime > UNUSED_DAYS_MAX * 86400:
            shutil.rmtree(one, ignore_errors=True)


@functools.cache
def image(name):
    """The folder of an image; made on the first call. Nobody changes what is in it."""
    cache = cache_folder()
    with locked(cache):
        recipe = RECIPES[name](Apt(cache / "packages"))
        text = recipe.key.encode() + b"".join((HERE / source).read_bytes() for source in SOURCES)
        folder = cache / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}"
        if folder.is_dir():
            os.utime(folder)
            return folder
        forget_old(cache, name)
        making = pathlib.Path(tempfile.mkdtemp(prefix="making-", dir=cache))
        try:
            making.chmod(0o755)
            with Layout(making) as made:
                made.tag("1", recipe.write(made))
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def push(folder, address, name):
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false",
                    f"oci:{folder}:1", f"docker://{address}/kit/{name}:1"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECIPES)}; all but large")
    parser.add_argument("--push", metavar="HOST:PORT", help="to a registry without TLS, as kit/NAME:1")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RECIPES):
        parser.error(f"there is no image {', '.join(sorted(unknown))}: there are {', '.join(RECIPES)}")
    for name in options.names or USUAL:
        folder = image(name)
        print(folder, flush=True)
        if options.push:
            push(folder, options.push, name)


if __name__ == "__main__":
    main()

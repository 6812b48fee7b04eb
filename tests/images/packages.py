"""Layers out of Debian packages: what apt would install on an empty system, without installing it.

apt chooses and downloads; the files go from each package straight into the layer's tar, with their owners and modes. No
root, no chroot, and no script of a package is run.
"""

import os
import pathlib
import re
import subprocess
import tarfile

from layout import Layer

TO_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Documentation and translations: half of the bytes, used by nobody here.
LEFT_OUT = re.compile(r"usr/share/(doc|man|info|locale|lintian|bug|perl5/debconf)(/|$)")


class Apt:
    """The host's package lists, and a folder for packages; nothing of the host's own state is used or changed."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "partial").mkdir(parents=True, exist_ok=True)
        self.status = self.folder / "nothing-is-installed"
        self.status.touch()

    def _run(self, *words):
        settings = {"Dir::State::status": self.status, "Dir::State::extended_states": self.folder / "extended",
                    "Dir::Cache::archives": f"{self.folder}/", "Dir::Cache::pkgcache": "",
                    "Dir::Cache::srcpkgcache": "", "Debug::NoLocking": "1", "APT::Sandbox::User": "root",
                    "APT::Install-Recommends": "false"}
        command = ["apt-get", "-y", "-q"]
        for name, value in settings.items():
            command += ["-o", f"{name}={value}"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode != 0:
            raise RuntimeError(f"apt-get {' '.join(words)}: {done.stderr.strip()}\nIf the lists are missing or old, "
                               "`apt-get update` makes them new.")
        return done.stdout

    def choose(self, names):
        """{name: version} of these packages and all they depend on."""
        said = self._run("--simulate", "install", *names)
        return dict(re.findall(r"^Inst (\S+) \((\S+) ", said, re.MULTILINE))

    def fetch(self, chosen):
        """The files of a choice, in the order of their names. Those that are there already are not fetched again."""
        missing = {name: version for name, version in chosen.items() if not self._file(name, version)}
        if missing:
            self._run("--download-only", "install", *(f"{name}={version}" for name, version in missing.items()))
        return [self._file(name, version) for name, version in sorted(chosen.items())]

    def _file(self, name, version):
        found = list(self.folder.glob(f"{name.partition(':')[0]}_{version.replace(':', '%3a')}_*.deb"))
        return found[0] if found else None


def in_usr(path):
    """bin/sh is usr/bin/sh: the names of packages are older than the merge of the two."""
    return "usr/" + path if path.partition("/")[0] in TO_USR else path


class PackageLayer(Layer):
    """Entries of one's own, then all files of some packages but those of the same names: no path is there twice."""

    def __init__(self, files, compression="gzip", only=None):
        super().__init__(compression)
        self.files, self.only = files, re.compile(only) if only else None

    def write(self, tar):
        super().write(tar)
        seen = {info.name for info, _ in self.entries}
        for file in self.files:
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as unpacked:
                with tarfile.open(fileobj=unpacked.stdout, mode="r|") as package:
                    for member in package:
                        self._copy(member, package, tar, seen)
            if unpacked.returncode != 0:
                raise RuntimeError(f"dpkg-deb could not read {file}: remove it, then it is fetched again")

    def _copy(self, member, package, tar, seen):
        path = in_usr(member.name.removeprefix("./").strip("/"))
        wanted = not LEFT_OUT.match(path) and (not self.only or self.only.match(path))
        if path in (".", "") or path in seen or not wanted:
            return
        seen.add(path)
        member.name = path
        member.pax_headers = {}
        if member.islnk():
            member.linkname = in_usr(member.linkname.removeprefix("./"))
        tar.addfile(member, package.extractfile(member) if member.isreg() else None)

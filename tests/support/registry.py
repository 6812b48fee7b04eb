"""A registry of the test's own: Debian's docker-registry on a port of loopback, with a folder for what it stores.

    with Registry() as registry:
        registry.push(folder, "kit/busybox:1")
        pull(f"{registry.address}/kit/busybox:1")
"""

import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

PATIENCE = 30.0
BCRYPT_COST = 4  # the least there is: nobody has to be kept out for long


def bcrypt(password):
    """A line's second half for htpasswd. The host's own libcrypt knows how; without it the test is skipped, loudly."""
    try:
        library = ctypes.CDLL("libcrypt.so.1")
        gensalt, crypt = library.crypt_gensalt, library.crypt
    except (OSError, AttributeError) as error:
        raise unittest.SkipTest(f"a registry with passwords needs bcrypt of libcrypt.so.1: {error}") from error
    gensalt.restype = crypt.restype = ctypes.c_char_p
    gensalt.argtypes = [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int]
    crypt.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    hashed = crypt(password.encode(), gensalt(b"$2b$", BCRYPT_COST, os.urandom(16), 16) or b"")
    if not hashed or not hashed.startswith(b"$2b$"):
        raise unittest.SkipTest("a registry with passwords needs bcrypt, and libcrypt.so.1 here has none")
    # The same algorithm; htpasswd's own letter is the one that every version of the registry reads.
    return hashed.decode().replace("$2b$", "$2y$", 1)


class Registry:
    """users: name → password, for basic credentials. authority: an upstream.Authority, for TLS."""

    def __init__(self, users=None, authority=None, names=("localhost", "127.0.0.1")):
        self.users, self.authority, self.names = dict(users or {}), authority, names
        self.process = self.address = None
        self.port = 0

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-registry-", dir="/var/tmp"))
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Again after stop(): on the same port, with what it had."""
        config = self.folder / "config.yml"
        config.write_text(json.dumps(self._config()), encoding="utf-8")  # JSON is YAML
        with open(self.folder / "log", "ab") as log:
            begun = log.tell()
            # setpriv becomes the registry, which then does not outlive a test that was killed.
            command = ["setpriv", "--pdeathsig", "KILL", "docker-registry", "serve", str(config)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={"PATH": os.environ["PATH"]})
        self.port = self._port(begun)
        self.address = f"127.0.0.1:{self.port}"
        return self

    def _config(self):
        http = {"addr": f"127.0.0.1:{self.port}", "secret": "known to nobody else"}
        if self.authority:
            self.authority.context(*self.names)
            chain, key = self.authority.files(self.names[0])
            http["tls"] = {"certificate": str(chain), "key": str(key)}
        config = {"version": "0.1", "log": {"level": "info", "formatter": "text"}, "http": http,
                  "storage": {"filesystem": {"rootdirectory": str(self.folder / "storage")},
                              "delete": {"enabled": True}, "maintenance": {"uploadpurging": {"enabled": False}}}}
        if self.users:
            lines = [f"{name}:{bcrypt(password)}\n" for name, password in self.users.items()]
            (self.folder / "htpasswd").write_text("".join(lines), encoding="utf-8")
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(self.folder / "htpasswd")}}
        return config

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def _port(self, begun):
        """It says where it listens, once it does; asked for port 0, nobody else can have been given the same one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = (self.folder / "log").read_bytes()[begun:].decode(errors="replace")
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", text):
                return int(found[1])
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"docker-registry does not listen: {text}")
            time.sleep(0.01)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE)

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def reference(self, name):
        return f"{self.address}/{name}"

    def push(self, folder, name, tag="1"):
        """An image of a layout, by skopeo, byte for byte; all of its platforms where it is an index."""
        words = ["skopeo", "--insecure-policy", "copy", "--quiet", "--all", "--preserve-digests",
                 "--dest-tls-verify=false"]
        if self.users:
            words += ["--dest-creds", ":".join(next(iter(self.users.items())))]
        words += [f"oci:{folder}:{tag}", f"docker://{self.reference(name)}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"skopeo: {done.stderr}")
        return self.reference(name)

"""A real server for an attack: started as root on a state directory of its own, asked over loopback, ended with
everything it made. The standard library only, so that nothing stands between the attack and the bytes on the wire.

Each address of 127.0.0.0/8 is a peer of its own to the server: `peer` says which one asks.
"""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77  # CTest knows it
PATIENCE = 30.0
BIN = pathlib.Path(os.environ.get("CAISSON_BIN", "build/bin"))
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
TOKEN = re.compile(r"cais_[a-z0-9]{12}_[a-z2-7]{52}")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.body)

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def __repr__(self):
        return f"{self.status} {self.text[:300]}"


def wait_until(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {patience} s in vain until {what}")


class LiveServer:
    """Running from the constructor to close()."""

    def __init__(self, *flags):
        # Others must be able to pass: the server is another user.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-promise-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.state = self.folder / "state"
        self.flags, self.admin, self.process = flags, None, None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        self.out, self.err = self.folder / "out", self.folder / "err"
        with open(self.out, "wb") as out, open(self.err, "ab") as err:
            self.process = subprocess.Popen(
                [BIN / "caisson", "serve", "--state-dir", self.state, "--listen", "127.0.0.1:0", *self.flags],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=os.environ | {"CAISSON_IMAGES_PULL_ON_CREATE": "false"})
        ready = wait_until("the server listens", self._ready)
        self.port = int(ready.group(1))
        token = TOKEN.search(self.log())
        if token and self.admin is None:
            self.admin = token.group(0)

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}: {self.log()}")
        return re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.out.read_text())

    def log(self):
        return self.err.read_bytes().decode("utf-8", "surrogateescape")

    @property
    def pid(self):
        return self.process.pid

    def status(self):
        """Of the process, as the kernel has it: name to words."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return {line.split(":")[0]: line.split(":")[1].split() for line in text.splitlines()}

    def memory_peak(self):
        return int(self.status()["VmHWM"][0]) * 1024

    def close(self):
        """SIGTERM ends the server, its sandboxes and the launcher."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, path, body=None, token=None, headers=None, peer="127.0.0.1", timeout=PATIENCE):
        """One request on a connection of its own. A dict becomes JSON; bytes go as they are."""
        fields = dict(headers or {})
        if token:
            fields["Authorization"] = f"Bearer {token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout, source_address=(peer, 0))
        try:
            connection.request(method, path, body=body, headers=fields)
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def raw(self, request, timeout=PATIENCE, until=None, peer="127.0.0.1"):
        """Bytes as they are; what comes back until the server closes, or until `until` was seen."""
        with socket.create_connection(("127.0.0.1", self.port), timeout, (peer, 0)) as link:
            received = b""
            try:
                link.sendall(request)
                while until is None or until not in received:
                    part = link.recv(65536)
                    if not part:
                        break
                    received += part
            except (ConnectionResetError, BrokenPipeError):
                pass
            return received

    def new_token(self, tenant, *scopes, **wishes):
        answer = self.call("POST", "/api/v1/tokens", {"tenant": tenant, "scopes": list(scopes), **wishes}, self.admin)
        assert answer.status == 201, answer
        return answer.json()

    def sandbox(self, token, **wishes):
        answer = self.call("POST", "/api/v1/sandboxes", wishes, token)
        assert answer.status == 201, answer
        return answer.json()["id"]

    def run(self, token, sandbox, command, **more):
        answer = self.call("POST", f"/api/v1/sandboxes/{sandbox}/exec", {"command": command, **more}, token)
        assert answer.status == 200, answer
        return answer.json()


def operations():
    """(method, path, operation) of the contract."""
    import yaml
    contract = yaml.safe_load((SOURCE / "api/openapi.yaml").read_text(encoding="utf-8"))
    for path, item in contract["paths"].items():
        for method, operation in item.items():
            if method in ("get", "head", "post", "put", "patch", "delete", "options"):
                yield method.upper(), path, operation


def filled(path, sandbox):
    for name, value in (("id", sandbox), ("pid", "1"), ("port", "8000"), ("path", "a.txt")):
        path = path.replace("{" + name + "}", value)
    return path


def example_body(operation):
    """(body, headers) that the contract itself shows for this operation."""
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        return json.dumps(content["application/json"].get("example", {})).encode(), {"Content-Type": "application/json"}
    return (b"bytes", {"Content-Type": "application/octet-stream"}) if content else (None, {})


UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


class Attack(unittest.TestCase):
    """One server for all attacks of a class."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = LiveServer(*cls.flags)
        cls.addClassCleanup(cls.server.close)


def main():
    if os.geteuid() != 0:
        print("skipped: a server needs root")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

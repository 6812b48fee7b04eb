"""A client of daiv-sandbox, and a server that it takes for one.

    class Run(DaivCase):
        def test_one(self):
            session = self.session()
            self.assertEqual(self.run_one(session, "echo hi"), ("hi\n", 0))
"""

import base64
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "server"), str(HERE.parent / "images")]
import http.client  # noqa: E402

from harness import Answer  # noqa: E402
from store_case import StoreCase, outside  # noqa: E402

KEY = "notsosecret"
REPO = "/workspace/repo"
SLOW = 120


def archive_of(files, mode="w:gz", **more):
    """A tar of {name: bytes | (bytes, mode) | "link target"}; a name that ends in "/" is a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, **more) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            info.mtime = 1_700_000_000
            info.mode = 0o644
            if isinstance(content, tuple):
                content, info.mode = content
            if name.endswith("/"):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def packed(data):
    return base64.b64encode(data).decode()


class DaivCase(StoreCase):
    env = {"DAIV_SANDBOX_API_KEY": KEY}
    flags = ()
    image = "host"

    def call(self, method, path, body=None, key=KEY, headers=None, raw=None):
        sent = {} if key is None else {"X-API-KEY": key}
        if body is not None:
            raw = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SLOW)
        try:
            connection.request(method, path, raw, sent)
            answer = connection.getresponse()
            content = answer.read()
            kind = answer.getheader("Content-Type", "")
            parsed = json.loads(content) if kind.startswith("application/json") and content else None
            return Answer(answer.status, answer.headers, content, parsed)
        finally:
            connection.close()

    def session(self, **wish):
        answer = self.call("POST", "/session/", {"base_image": self.image} | wish)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(list(answer.json), ["session_id"])
        session = answer.json["session_id"]
        self.addCleanup(self.call, "DELETE", f"/session/{session}/?force=true")
        return session

    def run_all(self, session, *commands, **more):
        answer = self.call("POST", f"/session/{session}/", {"commands": list(commands)} | more)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIn("patch", answer.json)
        return answer.json

    def run_one(self, session, command, **more):
        result = self.run_all(session, command, **more)["results"][0]
        self.assertEqual(list(result), ["command", "output", "exit_code"])
        self.assertEqual(result["command"], command)
        return result["output"], result["exit_code"]

    def patch(self, session, archive, *commands):
        answer = self.run_all(session, *commands, archive=packed(archive))
        self.assertNotIn("patch_error", answer)
        return None if answer["patch"] is None else base64.b64decode(answer["patch"], validate=True).decode()

    def seed(self, session, **archives):
        boundary = "caisson-test-boundary"
        parts = []
        for name, data in archives.items():
            parts += [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="a.tar.gz"\r\n'
                      "Content-Type: application/gzip\r\n\r\n".encode(), data, b"\r\n"]
        parts.append(f"--{boundary}--\r\n".encode())
        return self.call("POST", f"/session/{session}/seed/", raw=b"".join(parts),
                         headers={"Content-Type": f"multipart/form-data; boundary={boundary}"})

    def fs(self, session, operation, **body):
        answer = self.call("POST", f"/session/{session}/fs/{operation}", body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def fs_error(self, session, operation, code, message=None, **body):
        error = self.fs(session, operation, **body)["error"]
        self.assertIsNotNone(error)
        self.assertEqual(error["code"], code, error)
        if message is not None:
            self.assertEqual(error["message"], message)
        self.assertNotEqual(error["message"], "")


class Tree:
    """A folder of the test's own side."""

    def __init__(self, case):
        self.path = pathlib.Path(case.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp")))

    def unpack(self, data):
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tar.extractall(self.path)
        return self

    def apply(self, patch):
        done = subprocess.run(["git", "apply", "--whitespace=nowarn", "--unsafe-paths", "-"], cwd=self.path,
                              input=patch.encode(), capture_output=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(self.path.parent)})
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode(errors="replace") + patch[:4000])
        return self

    def content(self):
        """name → (kind, executable, bytes) of every file and link."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            name = str(path.relative_to(self.path))
            if path.is_symlink():
                found[name] = ("link", False, str(path.readlink()).encode())
            elif path.is_file():
                found[name] = ("file", bool(path.stat().st_mode & 0o100), path.read_bytes())
        return found


def git(*words, cwd):
    return outside("git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main", *words, cwd=cwd)

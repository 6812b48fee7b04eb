"""A server with tokens, and the command that speaks to it."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from harness import BIN, PATIENCE, Server  # noqa: E402


class UsersCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CAISSON_")}
        home = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / "none")}
        self.env = clean | home | {"CAISSON_URL": self.server.url, "CAISSON_TOKEN": self.server.token}

    def run_command(self, *words, token=None):
        env = self.env | ({"CAISSON_TOKEN": token} if token else {})
        return subprocess.run([BIN / "caisson", "user", *words], capture_output=True, text=True, timeout=PATIENCE * 2,
                              env=env, check=False)

    def user(self, *words):
        """Standard output of a command that must succeed."""
        done = self.run_command(*words)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def refused(self, *words, status=1, token=None):
        """The one line that it says."""
        done = self.run_command(*words, token=token)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def works(self, token):
        return self.server.get("/api/v1/sandboxes", token=token).status == 200

    def actions(self, prefix):
        rows = self.server.get(f"/api/v1/audit?action={prefix}&limit=1000").json["rows"]
        return [(row["action"], row["object"], row["outcome"]) for row in rows]

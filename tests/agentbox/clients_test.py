"""Clients as people have them: the examples of this project, with grpcio and with npm's Connect."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from agentbox_case import PROTO, ROOT, SLOW, AgentboxCase, main, messages_folder
from store_case import need

EXAMPLES = ROOT / "examples" / "agentbox"
PACKAGES = pathlib.Path(os.environ.get("CAISSON_NODE") or
                        pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "caisson-node"))
STORY = ["host name: True", "python: Python 3", "file: print('hello from', __file__)",
         "run: hello from /workspace/hello.py", "timeout: -1 Command timed out True", "refused: ", "listed: True"]


class ExampleCase(AgentboxCase):
    flags = ()  # with a token

    def run_program(self, *words, **env):
        env = {**os.environ, "CAISSON_TOKEN": self.server.token, **env}
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=env, timeout=SLOW,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def check_story(self, out):
        lines = [line.replace("true", "True") for line in out.splitlines()]
        told = [line for line in lines if not line.startswith(("stdout:", "exit:"))]
        self.assertEqual(len(told), len(STORY), out)
        for line, start in zip(told, STORY):
            self.assertTrue(line.startswith(start), (line, start))
        streamed = " ".join(line.removeprefix("stdout: ") for line in lines if line.startswith("stdout:"))
        self.assertEqual((streamed, lines.count("exit: 7")), ("line 1 line 2 line 3", 1), out)
        self.assertIn("Path not allowed", out)
        self.assertEqual(list(self.api.ListSessions().sessions), [])


class Python(ExampleCase):
    def test_the_example(self):
        self.check_story(self.run_program(sys.executable, "-B", EXAMPLES / "client.py", self.server.grpc,
                                          PYTHONPATH=str(messages_folder())))


class JavaScript(ExampleCase):
    def setUp(self):
        need(self, "node", "protoc")
        if not (PACKAGES / "node_modules").is_dir():
            self.skipTest(f"the npm packages are not there: tests/agentbox/node-packages {PACKAGES}")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in (EXAMPLES / "client.mjs", ROOT / "tests" / "agentbox" / "connect_probe.mjs"):
            shutil.copy(name, self.folder)
        (self.folder / "node_modules").symlink_to(PACKAGES / "node_modules")
        self.descriptors = self.folder / "sandbox.bin"
        subprocess.run(["protoc", f"-I{ROOT / 'api'}", f"--descriptor_set_out={self.descriptors}", PROTO], check=True,
                       timeout=SLOW)

    def node(self, program, *words):
        return self.run_program("node", self.folder / program, self.descriptors, f"http://{self.server.grpc}", *words)

    def test_grpc_web(self):
        self.check_story(self.node("client.mjs"))

    def test_native(self):
        self.check_story(self.node("client.mjs", "--native"))

    def check_probe(self, *words):
        self.assertEqual(json.loads(self.node("connect_probe.mjs", *words)), {
            "created": "number", "tenant": True, "unknown": "NotFound: Session not found", "invalid": "InvalidArgument",
            "destroyed": False, "missing": [-1, "Session not found", False], "empty": [True, "", True],
            "none": [False, True, "File not found"], "text": True,
            "parts": [["stdout", "ask\n", None], ["stdout", "answer\n", None], ["exit", "", 3]], "nothing": 0,
            "lost": [["error", "Session not found"]], "bytes": 5000000, "aborted": "Canceled", "late": "DeadlineExceeded",
            "left": "0", "many": True, "ended": [True, False]})

    def test_what_its_clients_rely_on_by_grpc_web(self):
        self.check_probe()

    def test_what_its_clients_rely_on_by_grpc(self):
        self.check_probe("--native")


if __name__ == "__main__":
    main()

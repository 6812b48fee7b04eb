"""The examples of examples/python run as they stand, each against a real server, and say what they promise."""

import os
import subprocess
import sys

from client_case import ROOT, SDK, ClientCase
from harness import main

SECONDS = 120


class Examples(ClientCase):
    def run_example(self, name, *arguments):
        env = {**os.environ, "PYTHONPATH": str(SDK / "src"), "CAISSON_URL": self.server.url,
               "CAISSON_TOKEN": self.server.token}
        done = subprocess.run([sys.executable, "-B", ROOT / "examples/python" / name, *arguments], capture_output=True,
                              text=True, env=env, timeout=SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(self.client.sandboxes(), [])
        return done.stdout

    def test_agent_loop(self):
        said = self.run_example("agent_loop.py")
        self.assertIn("http_request: Denied", said)
        self.assertIn("The tests say: passed", said)
        self.assertIn("1 denied call: tool.http_request", said)

    def test_code_grading(self):
        lines = {line.split()[0]: line for line in self.run_example("code_grading.py").splitlines()}
        self.assertIn("3/3", lines["good"])
        self.assertIn("3/3", lines["vandal"])
        self.assertIn("wrong answer", lines["wrong"])
        self.assertIn("took more than 2 s", lines["endless"])
        self.assertIn("0/3", lines["greedy"])
        self.assertIn("exit code 2", lines["broken"])

    def test_notebook(self):
        with self.client.sandbox() as sandbox:
            if sandbox.exec("command -v python3").exit_code != 0:
                self.skipTest("the host has no python3 in /usr")
        said = self.run_example("notebook.py")
        for line in ("mean: 17.5", "KeyError: 'humidity'", "still there: 4 rows", "spoiled: 0 bytes",
                     "changed: modified /workspace/cities.csv", "again: city,degrees", "warmest: Cairo"):
            self.assertIn(line, said)

    def test_map_over_a_hundred_forks(self):
        said = self.run_example("map_forks.py", "100")
        self.assertIn("the best is off by 0; its answer is 42", said)


if __name__ == "__main__":
    main()

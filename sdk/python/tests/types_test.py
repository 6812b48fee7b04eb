"""The package and its examples are typed throughout: mypy in its strict mode finds nothing, for the oldest Python too."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from client_case import ROOT, SDK
from harness import main

VENV = Path(os.environ.get("CAISSON_SDK_VENV", Path.home() / ".cache/caisson-sdk"))


class Types(unittest.TestCase):
    def test_strictly(self):
        if not (VENV / "bin/mypy").exists():
            self.skipTest(f"{VENV} has no mypy: tests/sdk/venv makes it")
        examples = sorted((ROOT / "examples/python").glob("*.py"))
        with tempfile.TemporaryDirectory() as cache:
            command = [VENV / "bin/mypy", "--strict", "--python-version", "3.10", "--cache-dir", cache,
                       SDK / "src/caisson", *examples]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=cache,
                                  env={**os.environ, "MYPYPATH": str(SDK / "src")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    main()

"""The wheel, made of the build that is here: it installs into an empty folder and runs a sandbox from there."""

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from harness import PATIENCE, main  # noqa: E402

VENV = Path(os.environ.get("CAISSON_SDK_VENV", Path.home() / ".cache/caisson-sdk"))
SOURCE = Path(os.environ.get("CAISSON_SOURCE", HERE.parent.parent))
BUILD = Path(os.environ.get("CAISSON_BUILD", SOURCE / "build"))
PIP = (VENV / "bin/python", "-m", "pip", "--disable-pip-version-check")
PROGRAM = """
import caisson
with caisson.SandboxManager(current_folder=None) as manager:
    sandbox = manager.create_sandbox()
    print(caisson.__file__, manager.execute(sandbox, ["/bin/echo", "from a wheel"]).stdout, end="")
"""


def run(*command, **environment):
    """The output of a program that must succeed; nothing of this checkout is in its environment but what is named."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE * 4, check=False,
                          cwd="/", env=clean | environment)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Wheel(unittest.TestCase):
    def setUp(self):
        if not (VENV / "made").exists():
            self.skipTest(f"{VENV} has no scikit-build-core: tests/sdk/venv makes it")
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make(self, **environment):
        """The wheel's file, and the names in it."""
        run(*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", self.folder, SOURCE / "sdk/python",
            **environment)
        (wheel,) = self.folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return wheel, archive.namelist()

    def test_it_carries_all_it_needs(self):
        wheel, names = self.make(CAISSON_BUILD=str(BUILD))
        for part in ("__init__.py", "py.typed", "_native.pyi", "local/core.py", "bin/caisson", "bin/caissond"):
            self.assertIn(f"caisson/{part}", names)
        self.assertFalse([name for name in names if "__pycache__" in name or name.endswith((".cc", ".h", ".cmake"))])
        place = self.folder / "installed"
        run(*PIP, "install", "--quiet", "--no-deps", "--no-index", "--target", place, wheel)
        state = str(self.folder / "state")
        said = run(VENV / "bin/python", "-c", PROGRAM, PYTHONPATH=str(place), CAISSON_STATE_DIR=state)
        self.assertEqual(said, f"{place}/caisson/__init__.py from a wheel\n")

    def test_the_client_alone_is_pure_python(self):
        wheel, names = self.make(CAISSON_CLIENT_ONLY="1")
        self.assertTrue(wheel.name.endswith("-none-any.whl"), wheel.name)
        self.assertFalse([name for name in names if name.endswith(".so") or "/bin/" in name])


if __name__ == "__main__":
    main()

"""`caisson run --tier` and what it leaves behind: nothing."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import harness  # noqa: E402
from harness import BIN, PATIENCE, wait_for  # noqa: E402

ROUNDS = 100


def traces(mark):
    """Processes, groups and mounts that speak of this state directory or of these sandboxes."""
    found = []
    for pid in harness.all_processes():
        words = harness.read_proc(pid, "cmdline")
        if words.startswith(b"runsc") or mark in words:
            found.append(f"process {pid} {words[:80]!r}")
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(folder, name) for name in names if name.startswith("caisson-")]
    mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    found += [line for line in mounts.split("\n") if mark.decode() in line]
    return found


class Gvisor(unittest.TestCase):
    def setUp(self):
        if not shutil.which("runsc"):
            self.skipTest("needs runsc, which is not installed")
        self.state = tempfile.mkdtemp(prefix="caisson-tiers-")
        os.chmod(self.state, 0o755)
        self.addCleanup(shutil.rmtree, self.state, ignore_errors=True)
        self.before = traces(self.state.encode())

    def words(self, *more):
        return [str(BIN / "caisson"), "run", "--state-dir", self.state, "--no-folder", "--tier", "gvisor", *more]

    def run_it(self, *more, **options):
        return subprocess.run(self.words(*more), capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
                              **options)

    def clean(self):
        wait_for(lambda: set(traces(self.state.encode())) <= set(self.before), "a clean host")

    def test_a_command_and_its_status(self):
        done = self.run_it("--", "sh", "-c", "echo out; echo err >&2; cat; exit 9", input="in")
        self.assertEqual((done.returncode, done.stdout), (9, "out\nin"), done.stderr)
        self.assertIn("err\n", done.stderr)
        self.clean()

    def test_a_folder_of_the_caller(self):
        folder = tempfile.mkdtemp(prefix="caisson-folder-")
        os.chmod(folder, 0o755)
        self.addCleanup(shutil.rmtree, folder)
        pathlib.Path(folder, "mine").write_text("mine\n", encoding="ascii")
        words = [word for word in self.words() if word != "--no-folder"]
        done = subprocess.run([*words, "--", "sh", "-c", "cat mine; echo yours >mine; cat mine"], cwd=folder,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.stdout, "mine\nyours\n", done.stderr)
        self.assertEqual(pathlib.Path(folder, "mine").read_text(encoding="ascii"), "mine\n")
        done = self.run_it("--writable", folder, "--", "sh", "-c", f"cat {folder}/mine; echo yours >{folder}/mine")
        self.assertEqual((done.returncode, done.stdout), (0, "mine\n"), done.stderr)
        self.assertEqual(pathlib.Path(folder, "mine").read_text(encoding="ascii"), "yours\n")
        self.clean()

    def test_limits_by_name(self):
        self.assertEqual(self.run_it("--timeout", "1s", "--", "sleep", "100").returncode, 124)
        done = self.run_it("--memory", "96m", "--", "python3", "-c", "b'a' * 300_000_000")
        self.assertEqual(done.returncode, 137)
        self.assertIn("memory limit exceeded", done.stderr)
        done = self.run_it("--cpu-seconds", "1", "--", "sh", "-c", "while :; do :; done")
        self.assertIn("CPU limit exceeded", done.stderr)
        self.clean()

    def test_a_wish_that_cannot_be(self):
        done = subprocess.run(self.words("--", "true"), capture_output=True, text=True, check=False, timeout=PATIENCE,
                              user=65534, env={"PATH": os.environ["PATH"]})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("gvisor", done.stderr)

    def test_killed_at_any_moment_it_leaves_nothing(self):
        for number in range(ROUNDS):
            child = subprocess.Popen(self.words("-q", "--", "sh", "-c", "echo up; sleep 1000"),
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            # Some before there is a sandbox, some in the middle of its start, some when it runs.
            if number % 4 == 0:
                child.stdout.readline()
            else:
                try:
                    child.wait(timeout=0.01 * (number % 23))
                except subprocess.TimeoutExpired:
                    pass
            child.kill()
            child.wait(PATIENCE)
            child.stdout.close()
        self.clean()


if __name__ == "__main__":
    harness.main()

"""P22: what a run leaves behind is nothing, whatever its command or somebody outside does."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE = 30.0
SKIPPED = 77  # CTest knows it
BIN = pathlib.Path(os.environ.get("CAISSON_BIN", "build/bin"))
PAYLOADS = pathlib.Path(os.environ.get("CAISSON_PAYLOAD", "build/tests/payload"))
RELAYS = 60


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {PATIENCE:.0f} seconds")
        time.sleep(0.002)
    return result


def v2_root():
    """Where the hierarchy of control groups is that sandboxes are members of."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] == "cgroup2":
            return pathlib.Path(before.split()[4])
    return None


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="caisson-p22-")
        os.chmod(folder, 0o755)
        self.addCleanup(shutil.rmtree, folder, True)
        self.folder = pathlib.Path(folder)
        self.work = self.folder / "work"
        self.work.mkdir()

    def begin(self, *command):
        return subprocess.Popen([BIN.resolve() / "caisson", "run", "--state-dir", self.folder / "state", "--summary", "json",
                                 "--", *command], cwd=self.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def end(self, run):
        _, words = run.communicate(timeout=PATIENCE)
        summary = json.loads(words.decode().splitlines()[-1])
        return summary, v2_root() / f"caisson-{summary['sandbox_id']}"

    def guardian(self, run):
        """The run's child that is in our own pid namespace: the other one is init."""
        own = os.stat("/proc/self/ns/pid").st_ino
        for task in pathlib.Path(f"/proc/{run.pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                try:
                    same = os.stat(f"/proc/{child}/ns/pid_for_children").st_ino == own
                    if same and os.readlink(f"/proc/{child}/exe").endswith("/caisson"):
                        return child
                except OSError:
                    continue
        return None

    def test_a_relay_does_not_outlive_its_run(self):
        shutil.copy(PAYLOADS / "relay", self.work / "relay")
        for _ in range(RELAYS):
            summary, group = self.end(self.begin("./relay"))
            self.assertEqual(summary["exit_code"], 0)
            # Not only empty: a run that had to kill has waited for the end of all of it.
            self.assertFalse(group.exists(), group)

    def begun(self):
        """A run whose command says that it runs and waits for the end of its input, and the run's guardian."""
        run = self.begin("/bin/sh", "-c", "echo on; read line")
        self.assertEqual(run.stdout.readline(), b"on\n")
        return run, until("a guardian", lambda: self.guardian(run))

    def test_the_guardian_heeds_no_signal_that_was_meant_for_the_run(self):
        run, guardian = self.begun()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(guardian, number)
        self.assertEqual(os.sched_getaffinity(guardian), os.sched_getaffinity(run.pid))
        summary, group = self.end(run)
        self.assertEqual(summary["signal"], None)
        until("the group's end", lambda: not group.exists())

    def test_a_run_whose_guardian_was_killed_cleans_up_itself(self):
        run, guardian = self.begun()
        os.kill(guardian, signal.SIGKILL)
        until("the guardian's end", lambda: "State:\tZ" in pathlib.Path(f"/proc/{guardian}/status").read_text())
        _, group = self.end(run)
        self.assertFalse(group.exists(), group)


if __name__ == "__main__":
    if os.geteuid() != 0 or v2_root() is None:
        print("SKIPPED: a run with a guardian needs root and a cgroup v2 hierarchy", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()

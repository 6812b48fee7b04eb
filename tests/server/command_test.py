"""The command line against a live server."""

import json
import os
import pty
import select
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import BIN, PATIENCE, Server, main, path_of, wait_for


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CAISSON_")}
        home = {"HOME": str(cls.folder), "XDG_CONFIG_HOME": str(cls.folder / "none")}
        cls.env = clean | home | {"CAISSON_URL": cls.server.url, "CAISSON_TOKEN": cls.server.token}

    def run_command(self, *words, given="", env=None):
        return subprocess.run([BIN / "caisson", *words], input=given, capture_output=True, text=True, timeout=PATIENCE,
                              env=self.env | (env or {}), check=False)

    def caisson(self, *words, given=""):
        """Standard output of a command that must succeed."""
        done = self.run_command(*words, given=given)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def box(self, *words):
        box = self.caisson("create", *words).strip()
        self.assertRegex(box, "^[a-z2-7]{26}$")
        self.server.ids.add(box)
        self.addCleanup(self.server.delete, path_of(box))
        return box

    def test_create_list_inspect_remove(self):
        local = self.folder / "local.txt"
        local.write_text("from here\n", encoding="utf-8")
        box = self.box("--name", "first", "--memory", "100m", "--cpus", "0.5", "--timeout", "10m", "--env", "A=b",
                       "--label", "k=v", "--file", f"in.txt={local}", "--tools", "shell_exec,file_read")
        shown = json.loads(self.caisson("inspect", "first"))
        self.assertEqual((shown["id"], shown["name"], shown["labels"]), (box, "first", {"k": "v"}))
        self.assertEqual(shown["resource_limits"]["memory_mb"], 100)
        self.assertEqual(shown["resource_limits"]["timeout_seconds"], 600)
        self.assertEqual(self.caisson("exec", "first", "--", "sh", "-c", "echo $A; cat in.txt"), "b\nfrom here\n")
        listing = self.caisson("ls")
        self.assertIn("first", listing)
        self.assertIn(box, self.caisson("ls", "-q").split())
        self.assertIn(box, [one["id"] for one in json.loads(self.caisson("ls", "--json"))["sandboxes"]])
        self.caisson("rm", "first")
        self.assertNotIn(box, self.caisson("ls", "-q"))
        again = self.run_command("rm", "first")
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("first", again.stderr)

    def test_exec(self):
        box = self.box()
        done = self.run_command("exec", box, "--", "sh", "-c", "cat; echo err >&2; exit 42", given="in")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("in", "err\n", 42))
        self.assertEqual(self.run_command("exec", box, "--", "sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(self.run_command("exec", "--timeout", "200ms", box, "--", "sleep", "1000").returncode, 124)
        flags = ("--workdir", "/tmp", "--env", "X=1")
        self.assertEqual(self.caisson("exec", *flags, box, "--", "sh", "-c", "pwd; echo $X"), "/tmp\n1\n")
        big = self.caisson("exec", box, "--", "sh", "-c", "seq 200000")
        self.assertEqual(big.count("\n"), 200000)
        self.assertNotEqual(self.run_command("exec", box, "--", "no-such-program").returncode, 0)
        self.assertNotEqual(self.run_command("exec", "nobody", "--", "true").returncode, 0)

    def test_shell_on_a_terminal(self):
        box = self.box()
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(BIN / "caisson", ["caisson", "shell", box, "--", "sh", "-i"], self.env | {"TERM": "xterm"})
        shown = b""

        def read_until(mark):
            nonlocal shown
            while mark not in shown:
                ready, _, _ = select.select([fd], [], [], PATIENCE)
                self.assertTrue(ready, f"no {mark} in {shown}")
                try:
                    piece = os.read(fd, 4096)
                except OSError:
                    piece = b""
                self.assertTrue(piece, f"the terminal ended before {mark}: {shown}")
                shown += piece

        try:
            os.write(fd, b"echo sum=$((40+2)); tty\n")
            read_until(b"sum=42")
            read_until(b"/dev/pts/")
            os.write(fd, b"exit 7\n")
            wait_for(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), "the end of the shell")
        finally:
            os.close(fd)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 7)

    def test_copy(self):
        box = self.box()
        tree = self.folder / "tree"
        (tree / "sub").mkdir(parents=True)
        (tree / "one.bin").write_bytes(bytes(range(256)) * 500)
        (tree / "sub/two.txt").write_text("zwei", encoding="utf-8")
        self.caisson("cp", str(tree / "one.bin"), f"{box}:one.bin")
        self.caisson("cp", f"{box}:/workspace/one.bin", str(self.folder / "back.bin"))
        self.assertEqual((self.folder / "back.bin").read_bytes(), (tree / "one.bin").read_bytes())
        self.caisson("cp", str(tree), f"{box}:tree")
        self.assertEqual(self.caisson("exec", box, "--", "cat", "tree/sub/two.txt"), "zwei")
        self.caisson("cp", f"{box}:tree", str(self.folder / "copy"))
        self.assertEqual((self.folder / "copy/sub/two.txt").read_text(encoding="utf-8"), "zwei")
        missing = self.run_command("cp", f"{box}:nothing", str(self.folder / "x"))
        self.assertNotEqual(missing.returncode, 0)
        self.assertFalse((self.folder / "x").exists())

    def test_processes(self):
        box = self.box()
        process = self.server.post(path_of(box, "processes"), {"command": "echo said; sleep 1000"}).json["id"]
        self.assertIn("sleep 1000", self.caisson("ps", box))
        wait_for(lambda: self.caisson("logs", box, str(process)) == "said\n", "what it said")
        self.caisson("kill", "-s", "KILL", box, str(process))
        ended = self.server.get(path_of(box, "processes", process, "wait")).json
        self.assertEqual(ended["exit_code"], 137)
        self.assertNotEqual(self.run_command("kill", box, "999").returncode, 0)

    def test_pause_events_top_logs(self):
        box = self.box("--name", "watched")
        self.caisson("pause", "watched")
        self.assertEqual(json.loads(self.caisson("inspect", box))["state"], "paused")
        self.caisson("resume", "watched")
        self.assertEqual(self.caisson("exec", box, "--", "echo", "awake"), "awake\n")
        events = self.caisson("events", "watched")
        for word in ("sandbox.created", "sandbox.paused", "sandbox.resumed"):
            self.assertIn(word, events)
        self.assertIn("watched", self.caisson("top", "--once"))
        self.assertIn("sandbox.create", self.caisson("logs", "watched"))

    def test_audit_and_tokens(self):
        box = self.box()
        self.assertIn("sandbox.create", self.caisson("audit", "tail", "--sandbox", box))
        self.caisson("audit", "verify")
        rows = [json.loads(line) for line in self.caisson("audit", "export").splitlines()]
        self.assertEqual([row["sequence"] for row in rows], list(range(1, len(rows) + 1)))
        made = json.loads(self.caisson("token", "create", "--json", "--scopes", "read", "--label", "viewer"))
        self.assertIn("viewer", self.caisson("token", "list"))
        self.assertNotIn(made["token"], self.caisson("token", "list", "--json"))
        viewer = {"CAISSON_TOKEN": made["token"]}
        self.assertEqual(self.run_command("ls", env=viewer).returncode, 0)
        self.assertNotEqual(self.run_command("rm", box, env=viewer).returncode, 0)
        self.caisson("token", "revoke", made["id"])
        self.assertNotEqual(self.run_command("ls", env=viewer).returncode, 0)

    def test_what_cannot_be_reached_is_said(self):
        done = self.run_command("ls", env={"CAISSON_URL": "http://127.0.0.1:1"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("127.0.0.1 port 1", done.stderr)
        done = self.run_command("ls", env={"CAISSON_TOKEN": "cais_wrong"})
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("cais_wrong", done.stderr + done.stdout)

    def test_no_secret_in_the_process_list(self):
        box = self.box()
        self.assertNotIn(self.server.token, self.caisson("exec", box, "--", "env"))


if __name__ == "__main__":
    main()

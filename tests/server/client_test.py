"""What the command line follows, watches and checks: streams that go on, terminals that change their size, a record
that somebody has changed, settings that are wrong."""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import termios
import unittest
from pathlib import Path

from harness import BIN, PATIENCE, Server, main, path_of, wait_for


def clean_environment(folder):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CAISSON_", "CAGEBOX_"))}
    return clean | {"HOME": str(folder), "XDG_CONFIG_HOME": str(Path(folder) / "none")}


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.env = clean_environment(self.folder)

    def serve(self, *flags, **more):
        server = Server(*flags, **more)
        self.addCleanup(server.close)
        server.start()
        self.env |= {"CAISSON_URL": server.url, "CAISSON_TOKEN": server.token or ""}
        return server

    def run_command(self, *words, env=None, **more):
        return subprocess.run([BIN / "caisson", *words], capture_output=True, text=True, timeout=PATIENCE,
                              env=self.env | (env or {}), check=False, **more)

    def caisson(self, *words, **more):
        """Standard output of a command that must succeed."""
        done = self.run_command(*words, **more)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def follow(self, *words):
        """A command that goes on, and a function that reads its lines until one holds a word."""
        process = subprocess.Popen([BIN / "caisson", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.env)
        shown = b""

        def read_until(word):
            nonlocal shown
            while word.encode() not in shown:
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
                self.assertTrue(ready, f"no {word} in {shown}")
                piece = os.read(process.stdout.fileno(), 65536)
                self.assertTrue(piece, f"{words} ended before {word}: {shown}")
                shown += piece

        def end():
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)
            process.stdout.close()
            process.stderr.close()

        self.addCleanup(end)
        return process, read_until


class Following(Command):
    def test_events(self):
        server = self.serve()
        old = server.create(name="old")
        process, read_until = self.follow("events", "--follow")
        read_until(old)
        new = server.create(name="new")
        read_until(new)
        server.post(path_of(new, "pause"))
        read_until("sandbox.paused")
        self.assertIsNone(process.poll(), "it goes on")
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)

    def test_the_log_of_a_sandbox(self):
        server = self.serve()
        box = server.create()
        process, read_until = self.follow("logs", "--follow", box)
        read_until("sandbox.create")
        server.post(path_of(box, "exec"), {"command": "echo first-command"})
        read_until("first-command")
        server.post(path_of(box, "exec"), {"command": "echo second-command"})
        read_until("second-command")
        self.assertIsNone(process.poll(), "it goes on")

    def test_the_output_of_a_process(self):
        server = self.serve()
        box = server.create()
        command = "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo over; exit 3"
        number = server.post(path_of(box, "processes"), {"command": command}).json["id"]
        process, read_until = self.follow("logs", "--follow", box, str(number))
        read_until("begun")
        self.assertIsNone(process.poll(), "it goes on")
        server.put(path_of(box, "files/go"), b"")
        read_until("over")
        process.wait(PATIENCE)

    def test_a_terminal_that_changes_its_size(self):
        server = self.serve()
        box = server.create()
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(BIN / "caisson", ["caisson", "shell", box, "--", "sh", "-i"], self.env | {"TERM": "xterm"})
        shown = b""

        def read_until(mark):
            nonlocal shown
            while mark not in shown:
                ready, _, _ = select.select([fd], [], [], PATIENCE)
                self.assertTrue(ready, f"no {mark} in {shown}")
                shown += os.read(fd, 4096)

        try:
            # The trap runs inside: the size travels all the way, and as a signal.
            os.write(fd, b"trap 'echo now=$(stty size)' WINCH; echo trap=$((1+1))\n")
            read_until(b"trap=2")
            for rows, columns in ((33, 101), (50, 120)):
                fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                # A shell that waits for its terminal runs the trap at its next line.
                wait_for(lambda: self.processes_have_size(server, box, rows, columns), "the new size inside")
                os.write(fd, b"\n")
                read_until(f"now={rows} {columns}".encode())
            os.write(fd, b"exit\n")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.close(fd)
            os.waitpid(pid, 0)

    def processes_have_size(self, server, box, rows, columns):
        command = "for tty in /dev/pts/[0-9]*; do stty size < $tty; done"
        return f"{rows} {columns}" in server.post(path_of(box, "exec"), {"command": command}).json["stdout"]


class TheRecord(Command):
    def test_a_changed_row_is_found(self):
        server = self.serve()
        box = server.create()
        for number in range(5):
            server.post(path_of(box, "exec"), {"command": f"echo {number}"})
        self.assertIn("intact", self.caisson("audit", "verify"))
        rows = json.loads(self.caisson("audit", "verify", "--json"))["rows"]
        self.assertGreaterEqual(rows, 6)
        server.stop()
        record = server.state / "server" / "caisson.db"
        kept = self.folder / "kept.db"
        shutil.copy2(record, kept)
        with sqlite3.connect(record) as database:
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                database.execute(f"DROP TRIGGER {name}")
            database.execute("UPDATE audit SET object = 'echo something else' WHERE sequence = 4")
        database.close()
        server.start()
        self.env["CAISSON_URL"] = server.url
        broken = self.run_command("audit", "verify")
        self.assertEqual(broken.returncode, 1, broken.stdout + broken.stderr)
        self.assertIn("NOT INTACT", broken.stdout)
        self.assertIn("4", broken.stdout)
        verdict = json.loads(self.run_command("audit", "verify", "--json").stdout)
        self.assertEqual((verdict["intact"], verdict["bad_row"]), (False, 4))

    def test_numbers_are_plain(self):
        server = self.serve()
        box = server.create()
        server.post(path_of(box, "exec"), {"command": "sleep 0.02"})
        for words in (("audit", "tail", "--sandbox", box), ("audit", "export", "--sandbox", box), ("logs", box)):
            line = [one for one in self.caisson(*words).splitlines() if "duration_ms" in one][0]
            self.assertRegex(line, r'"duration_ms": ?[0-9]+\.[0-9]+[,}]')
        with sqlite3.connect(f"file:{server.state}/server/caisson.db?mode=ro", uri=True) as database:
            (detail,) = database.execute("SELECT detail FROM audit WHERE action = 'exec'").fetchone()
        database.close()
        self.assertRegex(detail, r'"duration_ms": ?[0-9]+\.[0-9]+[,}]')

    def test_the_end_of_life_does_not_move(self):
        server = self.serve()
        box = server.create(resource_limits={"timeout_seconds": 500})
        self.assertEqual(len({server.get(path_of(box)).json["expires_at"] for _ in range(50)}), 1)


class Tokens(Command):
    def test_made_listed_and_withdrawn(self):
        server = self.serve()
        box = server.create()
        made = self.run_command("token", "create", "--scopes", "use,read", "--label", "worker", "--tenant", "default")
        self.assertEqual(made.returncode, 0, made.stderr)
        token = made.stdout.strip()
        self.assertRegex(token, "^cais_[a-z2-7]{12}_[a-z2-7]{52}$")
        number = token.split("_")[1]
        self.assertIn(number, made.stderr)
        self.assertNotIn(token, made.stderr)
        line = [one for one in self.caisson("token", "list").splitlines() if number in one][0]
        for word in ("worker", "default", "valid"):
            self.assertIn(word, line)
        worker = {"CAISSON_TOKEN": token}
        self.assertEqual(self.caisson("exec", box, "--", "echo", "mine", env=worker), "mine\n")
        self.assertNotEqual(self.run_command("create", env=worker).returncode, 0)
        self.assertNotEqual(self.run_command("token", "list", env=worker).returncode, 0)
        self.caisson("token", "revoke", number)
        self.assertNotEqual(self.run_command("ls", env=worker).returncode, 0)
        line = [one for one in self.caisson("token", "list").splitlines() if number in one][0]
        self.assertIn("revoked", line)
        self.assertNotEqual(self.run_command("token", "revoke", "a" * 12).returncode, 0)
        self.assertNotEqual(self.run_command("token", "create", "--scopes", "everything").returncode, 0)


class Settings(Command):
    def test_a_bad_pattern_is_named_with_its_line(self):
        file = self.folder / "caisson.yaml"
        file.write_text("server: {}\nsandbox:\n  command_blocklist:\n    - 'good.*'\n    - 'bad(one'\n",
                        encoding="utf-8")
        done = self.run_command("config", "check", str(file))
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in (str(file), "line 5", "bad(one"):
            self.assertIn(word, done.stderr)
        # The server says no to the same file.
        server = Server("--open", config=file.read_text(encoding="utf-8"))
        self.addCleanup(server.close)
        with self.assertRaisesRegex(AssertionError, "did not start"):
            server.start()
        file.write_text("sandbox: {command_blocklist: ['good.*']}\n", encoding="utf-8")
        self.assertIn("good.*", self.caisson("config", "check", str(file)))

    def test_the_default_image_by_the_other_name(self):
        server = self.serve("--open", env={"CAGEBOX_SANDBOX_DEFAULT_IMAGE": "python:3.12"})
        answer = server.post("/api/v1/sandboxes", {})
        self.assertEqual((answer.status, answer.json["error"]["code"]), (404, "NotFound"), answer.body)
        self.assertIn("python:3.12", answer.json["error"]["message"])
        self.assertEqual(server.get(path_of(server.create(base_image="host"))).json["image"], "host")
        checked = self.caisson("config", "check", env={"CAGEBOX_SANDBOX_DEFAULT_IMAGE": "python:3.12"})
        self.assertIn("python:3.12", checked)

    def test_a_unix_socket_and_the_line_that_is_printed_for_it(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            path = f"{folder}/api.sock"
            process = subprocess.Popen(
                [BIN / "caisson", "serve", "--state-dir", f"{folder}/state", "--listen", f"unix:{path}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
            try:
                self.assertEqual(process.stdout.readline(), f"listening on unix:{path}\n")
                lines = ""
                while "Content-Type" not in lines:
                    lines += process.stderr.readline()
                line = lines[lines.index("curl ") :]
                self.assertIn(f"--unix-socket '{path}' http://localhost/api/v1/sandboxes", line)
                done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE,
                                      check=True)
                self.assertEqual(json.loads(done.stdout)["state"], "running", done.stdout)
            finally:
                process.terminate()
                process.communicate(timeout=PATIENCE)

    def test_files_that_are_no_files(self):
        self.serve()
        reader, writer = os.pipe()
        os.write(writer, "through a pipe, äöü".encode())
        os.close(writer)
        with os.fdopen(reader) as pipe:
            box = self.caisson("create", "--file", f"in.txt=/dev/fd/{pipe.fileno()}",
                               pass_fds=[pipe.fileno()]).strip()
        self.assertEqual(self.caisson("exec", box, "--", "cat", "in.txt"), "through a pipe, äöü")
        endless = self.run_command("create", "--file", "in.txt=/dev/zero")
        self.assertEqual(endless.returncode, 2)
        self.assertIn("/dev/zero", endless.stderr)
        self.assertEqual(self.run_command("create", "--file", f"in.txt={self.folder}").returncode, 2)


class Completion(Command):
    def complete(self, *words):
        script = self.caisson("completion", "bash")
        line = " ".join(f"'{word}'" for word in words)
        program = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _caisson; echo \"${{COMPREPLY[*]}}\""
        done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout.split()

    def test_bash(self):
        commands = self.complete("caisson", "")
        for word in ("run", "serve", "create", "audit", "token", "shell", "completion"):
            self.assertIn(word, commands)
        self.assertNotIn("launcher", commands)
        self.assertIn("--memory", self.complete("caisson", "create", "--"))
        self.assertEqual(self.complete("caisson", "audit", "v"), ["verify"])
        self.assertIn("--follow", self.complete("caisson", "audit", "tail", "--"))
        self.assertEqual(self.complete("caisson", "validate", "--output", ""), ["text", "json"])
        self.assertEqual(self.complete("caisson", "completion", "f"), ["fish"])
        self.assertIn("caisson.yaml", self.complete_file())

    def complete_file(self):
        (self.folder / "caisson.yaml").touch()
        found = self.complete("caisson", "run", "--config", f"{self.folder}/cai")
        return [Path(one).name for one in found]


if __name__ == "__main__":
    main()

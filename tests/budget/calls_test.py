"""A guard against slow growth that needs no clock: how many system calls a hot path makes, against calls.json.

What is counted is the least of a few tries, so a wake-up more or less does no harm. Who makes a path cheaper lowers its
budget in the same commit; who must raise one says why in the message. The figures are printed either way.
"""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import harness  # noqa: E402
from harness import BIN, PATIENCE, Server, path_of, wait_for  # noqa: E402
from store_case import need  # noqa: E402

TRIES = 3
CALLS = 20
BUDGETS = json.loads((HERE / "calls.json").read_text(encoding="ascii"))
PAYLOAD = pathlib.Path(os.environ["CAISSON_PAYLOAD"]) / "true"


def total_of(table):
    """The sum under the table that `strace -c` writes."""
    found = re.search(r"^\s*100\.00\s.*?(\d+)(?:\s+\d+)?\s+total$", table, re.MULTILINE)
    assert found, table
    return int(found[1])


class Counted:
    """What some processes and their children call from the start of the block to its end."""

    def __init__(self, *pids):
        self.pids = pids
        self.calls = 0

    def __enter__(self):
        self.table = tempfile.NamedTemporaryFile(prefix="caisson-calls-", mode="r", encoding="ascii")
        words = ["strace", "-f", "-c", "-U", "time,calls,errors,name", "-o", self.table.name]
        for pid in self.pids:
            words += ["-p", str(pid)]
        self.strace = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        threads = [thread for pid in self.pids for thread in os.listdir(f"/proc/{pid}/task")]
        wait_for(lambda: all(self.traced(thread) for thread in threads), "strace to be there")
        return self

    def traced(self, thread):
        return f"\nTracerPid:\t{self.strace.pid}\n" in pathlib.Path(f"/proc/{thread}/status").read_text(encoding="utf-8")

    def __exit__(self, *_):
        self.strace.send_signal(signal.SIGINT)
        self.strace.communicate(timeout=PATIENCE)
        with self.table as table:
            self.calls = total_of(table.read())


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spent = {}

    @classmethod
    def tearDownClass(cls):
        for name, calls in cls.spent.items():
            print(f"{name}: {calls:.0f} of {BUDGETS[name]}", file=sys.stderr)

    def setUp(self):
        need(self, "strace")

    def within(self, name, tries):
        self.spent[name] = min(tries)
        self.assertLessEqual(min(tries), BUDGETS[name], name)

    def run_once(self, state, flags):
        with tempfile.NamedTemporaryFile(mode="r", encoding="ascii") as table:
            words = ["strace", *flags, "-c", "-o", table.name, str(BIN / "caisson"), "run", "--quiet",
                     "--state-dir", state, "--", f"./{PAYLOAD.name}"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False,
                                  cwd=PAYLOAD.parent)
            self.assertEqual(done.returncode, 0, done.stderr)
            return total_of(table.read())

    def test_a_run(self):
        with tempfile.TemporaryDirectory(prefix="caisson-calls-") as state:
            self.run_once(state, [])  # makes what every later one finds
            self.within("caisson run: the command itself", [self.run_once(state, []) for _ in range(TRIES)])
            self.within("caisson run: all processes", [self.run_once(state, ["-f"]) for _ in range(TRIES)])

    def test_the_server(self):
        with Server() as server:
            worker = wait_for(lambda: self.worker_of(server), "the launcher")
            talk = Talk(server)
            box = talk.create()
            self.within("server: a command in a live sandbox",
                        self.per_call(server.process.pid, lambda: talk.run(box)))
            self.within("server: create, a command, destroy",
                        self.per_call(server.process.pid, lambda: self.whole(talk)))
            self.within("launcher: create, a command, destroy", self.per_call(worker, lambda: self.whole(talk)))

    @staticmethod
    def worker_of(server):
        try:
            return server.worker()
        except AssertionError:  # a helper of the keeper comes or goes
            return None

    @staticmethod
    def whole(talk):
        box = talk.create()
        talk.run(box)
        talk.destroy(box)

    @staticmethod
    def per_call(pid, call):
        tries = []
        for _ in range(TRIES):
            call()
            with Counted(pid) as counted:
                for _ in range(CALLS):
                    call()
            tries.append(counted.calls / CALLS)
        return tries


class Talk:
    """One connection that is kept alive, as a client has it."""

    def __init__(self, server):
        self.fields = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, wanted=200):
        self.connection.request(method, path, None if body is None else json.dumps(body), self.fields)
        answer = self.connection.getresponse()
        content = answer.read()
        assert answer.status == wanted, (answer.status, content)
        return json.loads(content) if content else None

    def create(self):
        return self.ask("POST", "/api/v1/sandboxes", {}, 201)["id"]

    def run(self, box):
        assert self.ask("POST", path_of(box, "exec"), {"command": "true"})["exit_code"] == 0

    def destroy(self, box):
        self.ask("DELETE", path_of(box), wanted=204)


if __name__ == "__main__":
    harness.main()

"""A sandbox with rules, in a world of the test's own.

The test's process leaves the machine's network for an empty one in which every address of both families is its own, so
that a server of the test answers at 11.22.33.44, at 169.254.169.254 and at any other address that somebody lets
through. Nothing a test does can leave the machine, and what gets out is seen.
"""

import ctypes
import functools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from upstream import PATIENCE, Dns

SKIPPED = 77  # CTest knows it
BIN = pathlib.Path(os.environ.get("CAISSON_BIN", "build/bin")).resolve()
SUPPORT = pathlib.Path(__file__).resolve().parent
NEW_NETWORK = 0x40000000  # CLONE_NEWNET
EVERY_PROTOCOL = 3  # ETH_P_ALL
PUBLIC, PUBLIC6 = "11.22.33.44", "2600:1234::44"
RUN_SECONDS = 50


def enter_own_world():
    """Before the first thread: a network namespace belongs to a thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "a network namespace for the test")
    for words in ("link set lo up", "route add local default dev lo", "-6 route add local default dev lo"):
        subprocess.run(["ip", *words.split()], check=True, timeout=PATIENCE)


def wait_until(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s in vain until {what}")
        time.sleep(0.01)
    return found


class Capture:
    """Every packet that passes through the world while the block runs."""

    def __enter__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(EVERY_PROTOCOL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.setblocking(False)
        self.packets = []
        return self

    def __exit__(self, *_):
        try:
            while True:
                self.packets.append(self.socket.recv(65536))
        except BlockingIOError:
            pass
        self.socket.close()


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        found += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split())
    return found


def gate_of(run):
    """The process that serves the way out of a run."""
    gates = [pid for pid in children_of(run.pid) if b"caissond" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(gates) == 1, gates
    return gates[0]


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def rule(domain, *ports, **more):
    """As in a capability file, without a limit that nobody asked for."""
    return {"domain": domain, "ports": list(ports or (80, 443)), "rate_limit_per_min": 1000000, **more}


def allowlist(*rules, **more):
    """The `network` of a create."""
    return {"mode": "allowlist", "rules": list(rules), **more}


class Inside:
    """How a run ended: what its probe told, and what the run said about it."""

    def __init__(self, done):
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        last = done.stderr.splitlines()[-1] if done.stderr else ""
        self.summary = json.loads(last) if last.startswith("{") else {}

    @functools.cached_property
    def told(self):
        """The last line, of a probe."""
        return json.loads(self.stdout.splitlines()[-1])

    @property
    def network(self):
        return self.summary["network"]

    @property
    def messages(self):
        return "\n".join(self.summary["messages"])


class WayOut(unittest.TestCase):
    """One world and one name server for all tests of a class."""

    maxDiff = None
    capability = {}  # more words of the capability file

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-egress-", dir="/tmp"))
        cls.folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.work = cls.folder / "work"
        cls.work.mkdir(mode=0o755)
        shutil.copy(SUPPORT / "guest_side.py", cls.work)
        cls.dns = Dns()

    def setUp(self):
        self.dns.forget()

    def begin(self, rules, command, options=()):
        """A run that goes on; its streams are pipes of text."""
        wanted = {"permissions": ["spawn_subprocess"], **self.capability}
        if rules:
            wanted["network_egress_rules"] = rules
        config = self.folder / "capability.yaml"
        config.write_text(json.dumps(wanted), encoding="utf-8")  # JSON is YAML
        words = [BIN / "caisson", "run", "--state-dir", self.folder / "state", "--config", config, "--summary", "json",
                 "--timeout", f"{RUN_SECONDS}s", *options]
        words += ["--dns", self.dns.address] if rules or "--allow" in options else []
        return subprocess.Popen([*map(str, words), "--", *map(str, command)], cwd=self.work, text=True,
                                errors="backslashreplace", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def finish(self, run, patience=RUN_SECONDS + PATIENCE):
        out, err = run.communicate(timeout=patience)
        return Inside(subprocess.CompletedProcess(run.args, run.returncode, out, err))

    def run_command(self, rules, *command, **more):
        return self.finish(self.begin(rules, command, **more))

    def probe(self, rules, code, **values):
        """Runs Python inside, after `from guest_side import *`; it puts what it saw into `out`. Values are given to it
        by name."""
        text = "from guest_side import *\n"
        text += "".join(f"{name} = json.loads({json.dumps(value)!r})\n" for name, value in values.items())
        (self.work / "probe.py").write_text(text + code + "\ntold()\n", encoding="utf-8")
        done = self.run_command(rules, "/usr/bin/python3", "-B", "probe.py")
        if done.code != 0:
            raise AssertionError(f"the probe ended with {done.code}: {done.stdout} {done.stderr}")
        return done

    def assert_all(self, told, expected, what=""):
        """Every value of a dictionary is one of those expected; all that are not, at once."""
        wrong = {key: value for key, value in told.items() if value not in expected}
        self.assertEqual(wrong, {}, what)


def audit_rows(server, box, token, **wanted):
    """Rows of one sandbox, by the words of the query."""
    wanted.setdefault("limit", 1000)
    query = "".join(f"&{key}={value}" for key, value in wanted.items())
    answer = server.call("GET", f"/api/v1/audit?sandbox={box}{query}", token=token)
    assert answer.status == 200, answer
    return answer.json()["rows"]


def main():
    if os.geteuid() != 0:
        print("SKIPPED: a network of the test's own needs root", file=sys.stderr)
        sys.exit(SKIPPED)
    enter_own_world()
    # A server's half of a handshake that failed is nobody's any more.
    unittest.main(verbosity=2, warnings="ignore")

"""A live server for the tests of this folder, and the clients they talk to it with.

    with Server("--open") as server:
        box = server.create()
        answer = server.post(f"/api/v1/sandboxes/{box}/exec", {"command": "id -u"})

A Server has a state directory of its own and knows every sandbox and process that came from it, so that a test can
ask left_behind() after its end. Nothing here waits by sleeping for a guessed time: wait_for() polls a condition, and
every wait has an end.
"""

import base64
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
from collections import namedtuple
from pathlib import Path
from xml.sax.saxutils import quoteattr

BIN = Path(os.environ.get("CAISSON_BIN", "build/bin")).resolve()
PATIENCE = 30  # seconds for what takes milliseconds on a machine that is not overloaded
SKIPPED = 77  # what CTest takes for a skip

Answer = namedtuple("Answer", "status headers body json")
Event = namedtuple("Event", "name id data")


def wait_for(condition, what, seconds=PATIENCE):
    """The first true value of the condition; fails when none came in time."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.01)


# ---------------------------------------------------------------------------------------------------------------------
# The processes of the host.


def read_proc(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def parent_and_birth(pid):
    """(parent, state, start time), or None for a process that is gone."""
    stat = read_proc(pid, "stat").decode(errors="replace")
    if not stat:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return int(fields[1]), fields[0], fields[19]


def all_processes():
    """pid → (parent, birth), without those that are dead and only not yet reaped."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            seen = parent_and_birth(int(name))
            if seen and seen[1] not in "ZX":
                found[int(name)] = (seen[0], seen[2])
    return found


def descendants(roots, processes):
    found, front = set(roots), list(roots)
    while front:
        pid = front.pop()
        children = [child for child, (parent, _) in processes.items() if parent == pid and child not in found]
        found.update(children)
        front += children
    return found


def groups_named(ids):
    """Control groups in any hierarchy that belong to one of these sandboxes."""
    wanted = {f"caisson-{one}" for one in ids}
    found = []
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(folder, name) for name in names if name in wanted]
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The server.


class Server:
    """`caisson serve` with a state directory of its own."""

    def __init__(self, *flags, config=None, env=None, state=None):
        self.flags = list(flags)
        self.env = dict(env or {})
        self.folder = Path(state or tempfile.mkdtemp(prefix="caisson-server-"))
        self.folder.chmod(0o755)  # the server has no privileges and must be able to pass
        self.state = self.folder / "state"
        self.process = None
        self.url = self.token = None
        self.port = 0
        self.seen = {}  # pid → birth of every process that was ours at a look
        self.ids = set()  # sandboxes, those kept in stock too
        if config is not None:
            self.configure(config)

    def configure(self, text):
        path = self.folder / "caisson.yaml"
        path.write_text(text, encoding="utf-8")
        if "--config" not in self.flags:
            self.flags += ["--config", str(path)]

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def start(self, listen=True):
        # The programs' own temporary variables of the caller must not change the server.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAISSON_", "CAGEBOX_"))}
        # No test asks a registry of the world by naming an image.
        env |= {"CAISSON_IMAGES_PULL_ON_CREATE": "false"} | self.env
        command = [str(BIN / "caisson"), "serve", "--state-dir", str(self.state)]
        command += ["--listen", "127.0.0.1:0"] if listen else []
        with open(self.folder / "err", "ab") as err:
            self.err_from = err.tell()
            self.process = subprocess.Popen(
                command + self.flags, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=env
            )
        line = self.process.stdout.readline().decode()
        found = re.match(r"listening on (http://127\.0\.0\.1:(\d+))$", line.strip())
        if not found:
            self.process.wait(PATIENCE)
            raise AssertionError(f"the server did not start: {line!r} {self.log()}")
        self.url, self.port = found[1], int(found[2])
        token = re.search(r"^\s+(cais_\S+)$", self.log(), re.MULTILINE)
        self.token = token[1] if token else self.token
        self.look()
        return self

    def log(self):
        """What this start of the server said on standard error."""
        with open(self.folder / "err", encoding="utf-8", errors="replace") as err:
            err.seek(self.err_from)
            return err.read()

    def stop(self):
        """SIGTERM, and its exit status."""
        self.look()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return status

    def kill(self):
        self.look()
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()

    def close(self):
        """Ends everything, whatever the test has killed already."""
        if self.process and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
        if self.processes():
            # Left by a kill: the next server of the same directory takes it over and ends it.
            self.flags, self.env = ["--open"], {}
            self.start()
            self.stop()
        for pid in [pid for pid in self.seen if self.alive(pid)]:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- what is ours on this host

    def launchers(self):
        """Processes that name our state directory, but for the server itself."""
        mine = str(self.state).encode()
        return [pid for pid in all_processes() if mine in read_proc(pid, "cmdline").split(b"\0")
                and b"launcher" in read_proc(pid, "cmdline").split(b"\0")]

    def processes(self):
        processes = all_processes()
        mine = descendants(self.launchers(), processes)
        if self.process and self.process.poll() is None:
            mine |= descendants([self.process.pid], processes)
        return {pid: processes[pid][1] for pid in mine if pid in processes}

    def keeper(self):
        mine = self.launchers()
        tops = [pid for pid in mine if (parent_and_birth(pid) or (0,))[0] not in mine]
        assert len(tops) == 1, f"want one keeper, found {tops}"
        return tops[0]

    def worker(self):
        keeper = self.keeper()
        children = [pid for pid, (parent, _) in all_processes().items() if parent == keeper]
        assert len(children) == 1, f"want one worker below the keeper, found {children}"
        return children[0]

    def alive(self, pid):
        now = parent_and_birth(pid)
        return now is not None and now[1] not in "ZX" and now[2] == self.seen[pid]

    def look(self):
        """Remembers which processes and control groups are ours now."""
        self.seen.update(self.processes())
        for pid in self.seen:
            self.ids.update(re.findall(r"/caisson-([a-z2-7]{26})\b", read_proc(pid, "cgroup").decode()))

    def left_behind(self):
        """Everything of ours that is still on this host: [] after a clean end."""
        left = [f"process {pid}" for pid in self.seen if self.alive(pid)]
        left += [f"process {pid}" for pid in self.processes()]
        left += groups_named(self.ids)
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        left += [f"mount {line}" for line in mounts.split("\n") if str(self.folder) in line]
        boxes = self.state / "sandboxes"
        left += [str(one) for one in boxes.iterdir()] if boxes.is_dir() else []
        return left

    def wait_until_clean(self):
        """The launcher goes a moment after the server: it is nobody's child, so nobody can wait for it."""
        try:
            wait_for(lambda: not self.left_behind(), "a clean host")
        except AssertionError:
            raise AssertionError(f"left behind: {self.left_behind()}") from None

    # --- asking it

    def open(self, method, path, body=None, headers=None, token=None, timeout=PATIENCE):
        """The connection and the unread answer."""
        fields = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            fields.setdefault("Content-Type", "application/json")
        token = self.token if token is None else token
        if token:
            fields.setdefault("Authorization", f"Bearer {token}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request(method, path, body, fields)
        return connection, connection.getresponse()

    def request(self, method, path, body=None, headers=None, token=None, timeout=PATIENCE):
        connection, response = self.open(method, path, body, headers, token, timeout)
        try:
            content = response.read()
        finally:
            connection.close()
        kind = response.getheader("Content-Type") or ""
        parsed = json.loads(content) if kind == "application/json" and content and method != "HEAD" else None
        return Answer(response.status, response.headers, content, parsed)

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.request("POST", path, body, **more)

    def put(self, path, body=b"", **more):
        return self.request("PUT", path, body, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    def create(self, **wish):
        """A new sandbox's id."""
        answer = self.post("/api/v1/sandboxes", wish)
        if answer.status != 201:
            raise AssertionError(f"create: {answer.status} {answer.body}")
        self.ids.add(answer.json["id"])
        return answer.json["id"]

    def events(self, method, path, body=None, headers=None, **more):
        connection, response = self.open(method, path, body, headers, **more)
        if response.status != 200:
            raise AssertionError(f"{path}: {response.status} {response.read()}")
        return Events(connection, response)


def path_of(box, *rest, **query):
    tail = "/".join(str(part) for part in rest)
    path = f"/api/v1/sandboxes/{box}" + (f"/{tail}" if tail else "")
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


# ---------------------------------------------------------------------------------------------------------------------
# Streams.


class Events:
    """Server-sent events, one after the other. Leaving the block hangs up."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        return self

    def __next__(self):
        fields = {}
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if line == "" and not self.response_open():
                raise StopIteration
            if line == "" and "data" in fields:
                return Event(fields.get("event", "message"), fields.get("id"), json.loads(fields["data"]))
            if line and not line.startswith(":"):
                name, _, value = line.partition(":")
                fields[name] = fields.get(name, "") + value.removeprefix(" ")

    def response_open(self):
        return not self.response.isclosed()

    def until(self, name):
        """(events before it, the event of this name)"""
        before = []
        for event in self:
            if event.name == name:
                return before, event
            before.append(event)
        raise AssertionError(f"the stream ended before {name!r}: {before}")


def bytes_of(events, name="stdout"):
    return b"".join(base64.b64decode(event.data["data"]) for event in events if event.name == name)


# ---------------------------------------------------------------------------------------------------------------------
# Running a file of tests.


def write_results(name, result, ran):
    """One JUnit file, so that a skip inside this program is counted like any other."""
    folder = os.environ.get("CAISSON_TEST_RESULTS")
    if not folder:
        return
    skips = {test.id(): reason for test, reason in result.skipped}
    lines = ["<testsuite>"]
    for test in ran:
        suite, _, case = test.id().removeprefix("__main__.").rpartition(".")
        skipped = skips.get(test.id())
        inner = f"<skipped message={quoteattr(skipped)}/>" if skipped is not None else ""
        lines.append(f'<testcase classname={quoteattr(suite)} name={quoteattr(case)}>{inner}</testcase>')
    lines.append("</testsuite>")
    place = Path(sys.argv[0]).resolve().parent.name
    Path(folder, f"{place}_{name}.xml").write_text("\n".join(lines), encoding="utf-8")


def flatten(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from flatten(one)
        else:
            yield one


def main():
    """Runs the tests of the calling file; arguments are patterns of names."""
    if os.geteuid() != 0:
        print("SKIPPED: a server starts as root, and this is not root")
        sys.exit(SKIPPED)
    if not os.access(BIN / "caissond", os.X_OK):
        sys.exit(f"{BIN} holds no caissond: build it, or name its folder in CAISSON_BIN")
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{word}*" for word in sys.argv[1:]] or None
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    ran = list(flatten(suite))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    write_results(Path(sys.argv[0]).stem.removesuffix("_test"), result, ran)
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}")
    if not result.wasSuccessful() or not ran:
        sys.exit(1)
    sys.exit(SKIPPED if len(result.skipped) == len(ran) else 0)

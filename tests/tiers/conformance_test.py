"""One set of questions for every tier that the server of this host offers: commands, files, terminals, signals, limits,
pauses, snapshots and forks, and who outlives whom. A difference between tiers is written as one: see `Differs`."""

import contextlib
import hashlib
import os
import pathlib
import signal
import sys
import threading

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import harness  # noqa: E402
import machines  # noqa: E402
from harness import bytes_of, path_of, wait_for  # noqa: E402
from store_case import SLOW, StoreCase, need  # noqa: E402
from websocket import WebSocket  # noqa: E402

OCTETS = {"Content-Type": "application/octet-stream"}
TIERS = ("native", "gvisor", "microvm")
# What is needed for a tier to be there at all. A server that does not offer it then is broken, and not without it.
PROGRAMS = {"gvisor": "runsc", "microvm": "qemu-system-x86_64"}
LARGE = 40 << 20
# Where an exhausted memory takes the whole sandbox and not the one process.
ENDS_WITH_ITS_MEMORY = {"gvisor"}
# Where files alone cannot be kept, only together with memory.
KEEPS_NO_FILES = {"microvm"}


class Conformance:
    """The questions. Each class below asks them of one tier."""

    tier = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.offered = cls.server.get("/api/v1/server").json["tiers"]

    def setUp(self):
        if self.tier in PROGRAMS:
            need(self, PROGRAMS[self.tier])
        if self.tier == "microvm" and (why := machines.missing() if machines.wanted() else machines.SLOW):
            self.skipTest(why)
        self.assertIn(self.tier, self.offered)

    def make(self, **wish):
        usual = machines.small(self) if self.tier == "microvm" and "snapshot" not in wish else {}
        return self.create(**{"tier": self.tier} | usual | wish)

    def shown(self, box):
        return self.told(self.server.get(path_of(box)))

    # --- what it is

    def test_it_says_what_it_is(self):
        box = self.make()
        shown = self.shown(box)
        self.assertEqual((shown["tier"], shown["record"]["tier"], shown["state"]), (self.tier, self.tier, "running"))
        self.assertNotEqual(shown["record"]["kernel"], "")
        self.assertRegex(shown["record"]["seccomp"], "^[0-9a-f]{16}$")
        own = os.uname().release
        self.assertEqual(self.shell(box, "uname -r").strip() == own, self.tier == "native")

    # --- commands

    def test_a_command(self):
        box = self.make(env={"GREETING": "hello there"})
        done = self.run_in(box, "echo $GREETING; echo oops >&2; pwd; id -u; exit 7")
        self.assertEqual((done["stdout"], done["stderr"], done["exit_code"]),
                         ("hello there\n/workspace\n65534\n", "oops\n", 7))
        done = self.run_in(box, "cat", stdin="in and out")
        self.assertEqual(done["stdout"], "in and out")

    def test_its_time(self):
        box = self.make()
        done = self.run_in(box, "echo before; sleep 1000", timeout_seconds=1)
        self.assertEqual((done["stdout"], done["timed_out"]), ("before\n", True))
        self.assertEqual(self.shell(box, "echo after"), "after\n")

    def test_output_to_the_last_byte(self):
        box = self.make()
        process = self.background(box, "echo up; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")
        with self.server.events("GET", path_of(box, "processes", process, "output")) as events:
            seen, end = events.until("exit")
        said = bytes_of(seen)
        lost = sum(event.data.get("lost", 0) for event in seen)
        self.assertEqual(lost + len(said), 3 + 3_000_001 + 4)
        self.assertTrue(said.endswith(b"x\nend\n"))
        self.assertEqual(end.data["exit_code"], 0)

    def test_nothing_of_a_tree_stays(self):
        box = self.make()
        alone = "import os; os.setsid(); print(os.getpid(), flush=True); os.execlp('sleep', 'sleep', '1000')"
        daemon = f'(python3 -c "{alone}" >/tmp/daemon &) ; sleep 1000'
        process = self.background(box, "echo up; " + daemon)
        wait_for(lambda: self.run_in(box, "cat /tmp/daemon")["stdout"].strip(), "a daemon")
        path = path_of(box, "processes", process)
        self.assertEqual(self.server.post(path + "/signal", {"signal": "KILL", "tree": True}).status, 204)
        self.assertEqual(self.told(self.server.get(path + "/wait"))["signal"], 9)
        wait_for(lambda: self.run_in(box, "kill -0 $(cat /tmp/daemon)")["exit_code"] != 0, "the end of the daemon")

    def test_signals(self):
        box = self.make()
        process = self.background(box, "trap 'echo heard; exit 3' USR1; echo up; while :; do sleep 0.05; done")
        path = path_of(box, "processes", process)
        self.assertEqual(self.server.post(path + "/signal", {"signal": "USR1"}).status, 204)
        self.assertEqual(self.told(self.server.get(path + "/wait"))["exit_code"], 3)

    def test_a_terminal(self):
        box = self.make()
        path = path_of(box, "terminal", rows=10, cols=20, command="stty size; exec sh -i")
        with WebSocket(self.server, path) as socket:
            _, _ = socket.until("start")
            shown = b""
            while b"10 20" not in shown:
                shown += socket.read()
            socket.send({"type": "resize", "rows": 33, "cols": 99})
            socket.send(b"stty size; tty\n")
            while b"/dev/pts/" not in shown:
                shown += socket.read()
            self.assertIn(b"33 99", shown)
            # What a person types stops what runs in front, and not the shell. It says so itself: by then it is there.
            socket.send(b"sh -c \"echo wait''ing; exec sleep 1000\"; echo never\n")
            while b"waiting" not in shown:
                shown += socket.read()
            socket.send(b"\x03")
            socket.send(b"echo still''here; exit 6\n")
            _, end = socket.until("exit")
        self.assertEqual(end["exit_code"], 6)

    # --- files

    def test_files_small_and_large(self):
        box = self.make(resource_limits={"disk_mb": 200, "memory_mb": 1024})
        content = os.urandom(1 << 16) * (LARGE >> 16)
        for name, body in (("small", b"few bytes"), ("large", content)):
            path = path_of(box, "files", name)
            self.assertEqual(self.server.put(path, body, headers=OCTETS, timeout=SLOW).status, 200)
            self.assertEqual(self.server.get(path, timeout=SLOW).body, body)
            digest = hashlib.sha256(body).hexdigest()
            self.assertEqual(self.shell(box, f"sha256sum {name}").split()[0], digest)
        self.assertEqual(self.server.get(path_of(box, "files", "missing")).status, 404)
        self.shell(box, "mkdir -p a/b; echo x >a/b/c; ln -s c a/b/link; chmod 640 a/b/c")
        listed = self.told(self.server.get(path_of(box, "list/a/b")))["entries"]
        self.assertEqual(sorted(one["name"] for one in listed), ["c", "link"])
        self.assertEqual(self.server.delete(path_of(box, "files/a/b/c")).status, 200)
        self.assertEqual(self.run_in(box, "test -e a/b/c")["exit_code"], 1)

    def test_the_system_cannot_be_written(self):
        box = self.make()
        for place in ("/usr/x", "/etc/x", "/x"):
            self.assertNotEqual(self.run_in(box, f"touch {place}")["exit_code"], 0, place)
        own = self.make(filesystem={"root": "writable"}, user=0)
        self.shell(own, "touch /x /etc/x /usr/x && rm /etc/hostname && mkdir /new")

    # --- limits

    def test_memory(self):
        box = self.make(resource_limits={"memory_mb": 128})
        self.run_or_gone(box, "python3 -c 'x = b\"a\" * 400_000_000; print(len(x))'")
        if self.tier not in ENDS_WITH_ITS_MEMORY:
            self.assertEqual(self.shell(box, "echo alive"), "alive\n")
            return
        wait_for(lambda: self.server.get(path_of(box)).status == 404, "the end of the sandbox")
        rows = wait_for(lambda: self.server.get(f"/api/v1/audit?sandbox={box}&action=sandbox.end").json["rows"],
                        "a row about its end")
        self.assertIn("memory", rows[0]["object"])

    def run_or_gone(self, box, command):
        answer = self.server.post(path_of(box, "exec"), {"command": command}, timeout=SLOW)
        if answer.status == 200:
            self.assertNotEqual(answer.json["exit_code"], 0, answer.json)
        else:
            self.assertIn(answer.status, (410, 404), answer.body)

    def test_processes(self):
        box = self.make(resource_limits={"processes": 20})
        done = self.run_in(box, "for i in $(seq 60); do sleep 20 & done; echo all", timeout_seconds=60)
        self.assertNotIn("all", done["stdout"])
        wait_for(lambda: self.run_in(box, "echo alive")["stdout"] == "alive\n", "room for a process")

    def test_disk(self):
        most = 16  # the least that a machine's disk can be
        box = self.make(resource_limits={"disk_mb": most, "memory_mb": 512})
        for place in ("/workspace/x", "/tmp/x"):
            self.fails(box, f"head -c {2 * most << 20} /dev/zero >{place}")
            self.shell(box, f"rm {place}")

    def test_open_files(self):
        box = self.make(resource_limits={"open_files": 64})
        self.fails(box, "python3 -c 'import os; [os.open(\"/dev/null\", 0) for _ in range(100)]'")

    def test_its_time_to_live(self):
        box = self.make(resource_limits={"timeout_seconds": 2})
        wait_for(lambda: self.server.get(path_of(box)).status == 404, "the end of its time")

    def test_processor_time(self):
        box = self.make(resource_limits={"cpu_seconds": 2})
        self.background(box, "echo up; while :; do :; done")
        wait_for(lambda: self.server.get(path_of(box)).status == 404, "the end of its time")

    def test_pause(self):
        box = self.make()
        self.background(box, "echo up; while :; do :; done")
        self.assertEqual(self.told(self.server.post(path_of(box, "pause")))["state"], "paused")
        before = self.server.get(path_of(box, "usage")).json["cpu_seconds"]
        self.refused(self.server.post(path_of(box, "exec"), {"command": "true"}), 409, "Busy")
        self.assertEqual(self.server.get(path_of(box, "usage")).json["cpu_seconds"], before)
        self.assertEqual(self.told(self.server.post(path_of(box, "resume")))["state"], "running")
        wait_for(lambda: self.server.get(path_of(box, "usage")).json["cpu_seconds"] > before, "time to go on")
        self.assertEqual(self.shell(box, "echo alive"), "alive\n")

    # --- file state

    def test_snapshots_and_forks(self):
        if self.tier in KEEPS_NO_FILES:
            box = self.make()
            self.refused(self.server.post(path_of(box, "snapshots"), {}), 501, "Unsupported")
            return
        for storage in ("disk", "memory"):
            with self.subTest(storage=storage):
                box = self.make(storage=storage)
                self.background(box, "echo up; sleep 1000")
                self.shell(box, "echo one >a; mkdir folder; echo x >folder/x; chmod 600 folder/x; ln -s a link")
                made = self.snapshot(box)
                self.shell(box, "echo two >a; rm -r folder")
                again = self.make(snapshot=made["id"], storage=storage)
                self.assertEqual(self.shell(again, "cat a link folder/x; stat -c %a folder/x 2>/dev/null || echo 600"),
                                 "one\none\nx\n600\n")
                fork = self.fork(box)
                self.assertEqual(self.shown(fork["id"])["tier"], self.tier)
                self.assertEqual(self.shell(fork["id"], "cat a; hostname").split(), ["two", fork["id"]])
                self.shell(fork["id"], "echo three >a")
                self.assertEqual(self.shell(box, "cat a"), "two\n")


class Lives(harness.unittest.TestCase):
    """Who outlives whom, for each tier: a server of its own that is killed."""

    def serve(self):
        server = harness.Server("--open")
        self.addCleanup(server.close)
        return server.start()

    def tiers(self, server):
        return server.get("/api/v1/server").json["tiers"]

    def test_the_next_server_takes_over(self):
        server = self.serve()
        boxes = {tier: server.create(tier=tier) for tier in self.tiers(server)}
        started = {}
        for tier, box in boxes.items():
            wish = {"command": "echo first; while read line; do echo got $line; done; echo closed"}
            started[tier] = server.post(path_of(box, "processes"), wish).json["id"]
            with server.events("GET", path_of(box, "processes", started[tier], "output")) as events:
                self.assertEqual(bytes_of([next(events)]), b"first\n", tier)
        server.kill()
        server.start()
        for tier, box in boxes.items():
            process = path_of(box, "processes", started[tier])
            self.assertEqual(server.get(path_of(box)).json["tier"], tier)
            answer = server.post(process + "/input?close=true", b"one\n", headers=OCTETS)
            self.assertEqual(answer.status, 204, answer.body)
            with server.events("GET", process + "/output") as events:
                seen, _ = events.until("exit")
            self.assertEqual(bytes_of(seen), b"first\ngot one\nclosed\n", tier)
            large = b"y" * (4 << 20)
            self.assertEqual(server.put(path_of(box, "files/large"), large, headers=OCTETS, timeout=SLOW).status, 200)
            self.assertEqual(server.get(path_of(box, "files/large"), timeout=SLOW).body, large)
        self.assertEqual(server.stop(), 0)
        server.wait_until_clean()

    def test_a_kernel_that_stands_still_holds_up_nobody(self):
        """Its init is asked to be silent before its files are copied, and does not answer."""
        server = self.serve()
        if "gvisor" not in self.tiers(server):
            self.skipTest("no tier whose kernel can be stopped from outside")
        box = server.create(tier="gvisor", storage="disk")
        stopped = kernels_of(box)
        self.assertTrue(stopped, "no process of gVisor's kernel")
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        answers = []
        asked = threading.Thread(target=lambda: answers.append(server.post(path_of(box, "snapshots"), {})))
        asked.start()
        wait_for(lambda: has_errand(server.worker()), "somebody to wait")
        other = server.create()
        self.assertEqual(server.delete(path_of(other)).status, 204)
        self.assertEqual(answers, [], "nobody could have answered")
        asked.join(SLOW)
        self.assertEqual(answers[0].json["kind"], "copied", answers[0].body)  # by the way that asks nobody inside
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(server.post(path_of(box, "exec"), {"command": "echo on"}).json["stdout"], "on\n")
        self.assertEqual(server.post(path_of(box, "snapshots"), {}).status, 201)
        self.assertEqual(server.delete(path_of(box)).status, 204)

    def test_nothing_outlives_the_launcher(self):
        server = self.serve()
        for tier in self.tiers(server):
            box = server.create(tier=tier)
            server.post(path_of(box, "processes"), {"command": "sleep 1000"})
        server.look()
        worker, keeper = server.worker(), server.keeper()
        server.process.kill()
        os.kill(keeper, 9)
        os.kill(worker, 9)
        server.process.wait(harness.PATIENCE)
        wait_for(lambda: not [pid for pid in server.seen if server.alive(pid)], "the end of every process")
        # Empty groups are the next launcher's to take away.
        server.start()
        self.assertEqual(server.stop(), 0)
        server.wait_until_clean()


def kernels_of(box):
    """The processes of gVisor's kernel in that sandbox."""
    found = set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if box in (folder / "cgroup").read_text() and (folder / "cmdline").read_bytes().startswith(b"runsc-sandbox"):
                found.add(int(folder.name))
    return found


def has_errand(worker):
    """A child of the launcher's that waits for one thing: it has few descriptors, as no sandbox's helper has."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == worker and 0 < len(os.listdir(folder / "fd")) < 6:
                return True
    return False


def tiered(tier):
    before = staticmethod(machines.set_up) if tier == "microvm" and machines.wanted() else None
    return type(tier.capitalize(), (Conformance, StoreCase),
                {"tier": tier, "flags": ("--open",), "before_start": before})


for name in TIERS:
    globals()[name.capitalize()] = tiered(name)

if __name__ == "__main__":
    harness.main()

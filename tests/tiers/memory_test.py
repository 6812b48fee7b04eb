"""Processes that are kept, asked of every tier that keeps them: snapshots with memory, forks with processes, sandboxes
that hibernate. What a tier does not keep it refuses by name, and nothing is lost by asking."""

import concurrent.futures
import ctypes
import glob
import os
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import harness  # noqa: E402
import machines  # noqa: E402
from harness import path_of, wait_for  # noqa: E402
from store_case import SLOW, StoreCase, need, tar_of  # noqa: E402

PROGRAMS = {"gvisor": "runsc", "microvm": "qemu-system-x86_64"}
# A small server: a number in its memory that each question raises. It listens in the file system, because Debian's
# gVisor does not save what waits for TCP connections: see test_what_gvisor_cannot_save().
COUNTER = r"""
import os, socket
place = socket.socket(socket.AF_UNIX)
place.bind("/tmp/counter")
place.listen(8)
count = 0
own = os.urandom(8).hex()
print("up", flush=True)
while True:
    link, _ = place.accept()
    word = link.recv(16)
    count += word == b"more"
    link.sendall(f"{count} {own} {os.urandom(8).hex()} {os.uname().nodename}".encode())
    link.close()
    print("asked", count, flush=True)
"""
ASK = """python3 -c 'import socket, sys
for word in sys.argv[1:]:
    link = socket.socket(socket.AF_UNIX)
    link.connect("/tmp/counter")
    link.sendall(word.encode())
    said = link.recv(200).decode()
print(said)' """


def flip(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


class MemoryCase(StoreCase):
    def make(self, **wish):
        wish = {"resource_limits": {"memory_mb": 512, "timeout_seconds": 600}, "files": {"counter.py": COUNTER}} | wish
        return self.create(tier=self.tier, **wish)

    def counting(self, **wish):
        """A sandbox with a counter that runs, and the id of its process."""
        box = self.make(**wish)
        return box, self.background(box, "exec python3 counter.py")

    def ask(self, box, word="look"):
        """(count, what was drawn at the start, what is drawn now, host name)"""
        count, own, drawn, name = self.shell(box, ASK + word).split()
        return int(count), own, drawn, name

    def raised(self, box, times):
        self.ask(box, " ".join(["more"] * times))

    def keep(self, box, **wish):
        answer = self.server.post(path_of(box, "snapshots"), {"memory": True} | wish, timeout=SLOW)
        made = self.told(answer, 201)
        self.addCleanup(self.server.delete, f"/api/v1/snapshots/{made['id']}")
        return made

    def forked(self, box, **wish):
        made = self.told(self.server.post(path_of(box, "fork"), {"memory": True} | wish, timeout=SLOW), 201)
        self.addCleanup(self.server.delete, path_of(made["id"]))
        return made

    def hibernate(self, box):
        shown = self.told(self.server.post(path_of(box, "hibernate"), timeout=SLOW))
        self.assertEqual(shown["state"], "hibernated")

    def state(self, box):
        return self.told(self.server.get(path_of(box)))["state"]


class Kept(MemoryCase):
    """Each question, of one tier."""

    def setUp(self):
        need(self, PROGRAMS[self.tier])
        if self.tier not in self.server.get("/api/v1/server").json["tiers"]:
            self.skipTest(f"this server has no {self.tier}")

    # --- forks

    def test_two_levels_of_forks_keep_their_counters_apart(self):
        box, process = self.counting(storage="disk")
        self.raised(box, 3)
        child = self.forked(box)["id"]
        self.raised(box, 10)
        self.raised(child, 1)
        grandchild = self.forked(child)["id"]
        self.raised(child, 1)
        self.raised(grandchild, 5)
        told = [self.ask(one) for one in (box, child, grandchild)]
        self.assertEqual([one[0] for one in told], [13, 5, 9])
        # What the program drew before is in its memory, and was copied; what it draws now is each one's own.
        self.assertEqual(len({one[1] for one in told}), 1)
        self.assertEqual(len({one[2] for one in told}), 3)
        self.assertEqual(len({one[3] for one in told}), 3)
        for one in (box, child, grandchild):
            listed = self.told(self.server.get(path_of(one, "processes")))["processes"]
            self.assertEqual([(each["id"], each["running"]) for each in listed], [(process, True)])

    def test_files_are_of_the_same_moment(self):
        box = self.make(storage="disk")
        self.background(box, "echo up; n=0; while :; do n=$((n+1)); echo $n >>log; done")
        wait_for(lambda: int(self.shell(box, "wc -l <log")) > 50, "lines")
        child = self.forked(box)["id"]
        for one in (box, child):
            before = int(self.shell(one, "wc -l <log"))
            wait_for(lambda one=one, before=before: int(self.shell(one, "wc -l <log")) > before, "a loop that goes on")
            # A number is in the file or in the shell's own memory: none is there twice, and none is missing.
            self.shell(one, "head -n -1 log >seen; seq $(wc -l <seen) | cmp - seen")

    def test_readers_and_rings_go_on(self):
        box, process = self.counting()
        self.raised(box, 2)
        with self.server.events("GET", path_of(box, "processes", process, "output")) as events:
            said = ""
            while "asked 2" not in said:
                said += harness.bytes_of([next(events)]).decode()
            child = self.forked(box)["id"]
            self.raised(box, 1)
            while "asked 3" not in said:  # of the same reader
                said += harness.bytes_of([next(events)]).decode()
        self.raised(child, 2)
        with self.server.events("GET", path_of(child, "processes", process, "output")) as events:
            said = ""
            while "asked 4" not in said:
                said += harness.bytes_of([next(events)]).decode()
        self.assertTrue(said.startswith("up\nasked 1\nasked 2\nasked 3\n"), said)
        # A terminal, or whoever signals: the number of the process is the same, and it is another one.
        path = path_of(child, "processes", process)
        self.assertEqual(self.server.post(path + "/signal", {"signal": "KILL"}).status, 204)
        self.assertEqual(self.told(self.server.get(path + "/wait"))["signal"], 9)
        self.assertEqual(self.ask(box)[0], 3)

    # --- snapshots

    def test_a_snapshot_with_processes(self):
        box, _ = self.counting(storage="disk", name="first")
        self.raised(box, 4)
        self.shell(box, "echo one >a")
        made = self.keep(box, name="kept")
        self.assertGreater(made["memory"]["bytes"], 0)
        self.assertIn("init", made["memory"]["runtime"])
        self.shell(box, "echo two >a")
        self.raised(box, 1)
        again = self.create(snapshot="kept", memory=True)
        self.assertEqual(self.shell(again, "cat a"), "one\n")
        self.assertEqual(self.ask(again, "more")[0], 5)
        self.assertEqual(self.ask(box)[0], 5)
        self.assertEqual(self.state(box), "running")
        self.refused_wishes(made)

    def refused_wishes(self, made):
        for field, more in (("resource_limits", {"resource_limits": {"memory_mb": 4096}}), ("user", {"user": 0}),
                            ("network", {"network": {"mode": "allowlist", "rules": [{"host": "a.test"}]}}),
                            ("tools", {"tools": ["shell_exec"]}), ("tier", {"tier": "native"})):
            answer = self.server.post("/api/v1/sandboxes", {"snapshot": made["id"], "memory": True} | more)
            self.assertEqual(answer.status, 400, (field, answer.body))
        self.refused(self.server.post("/api/v1/sandboxes", {"memory": True}), 400, "InvalidArgument", "memory")

    def test_a_changed_byte_is_refused(self):
        box, _ = self.counting(storage="disk")
        made = self.keep(box)
        self.assertGreater(self.memories(change=True), 0)
        self.refused(self.server.post("/api/v1/sandboxes", {"snapshot": made["id"], "memory": True}), 403, "Denied")
        self.assertEqual(self.ask(box)[0], 0)

    def memories(self, change=False):
        """How many files there are of memories in the store, which is mounted for the launcher alone; each with one
        bit that is another one now."""
        child = os.fork()
        if child == 0:
            count = 0
            try:
                with open(f"/proc/{self.server.worker()}/ns/mnt", "rb") as mounts:
                    if ctypes.CDLL(None, use_errno=True).setns(mounts.fileno(), 0) != 0:
                        os._exit(255)
                for path in glob.glob(f"{self.server.state}/store/memory/*/*"):
                    count += 1
                    if change:
                        flip(path)
            finally:
                os._exit(count)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.assertNotEqual(status, 255, "the launcher's mounts")
        return status

    # --- hibernating

    def test_it_hibernates_and_wakes_on_use(self):
        for storage in ("disk", "memory"):
            with self.subTest(storage=storage):
                box, process = self.counting(storage=storage)
                self.raised(box, 2)
                self.shell(box, "echo kept >a; echo t >/tmp/t")
                before = self.ask(box)
                self.hibernate(box)
                self.assertEqual(harness.groups_named([box]), [])
                self.assertEqual(self.told(self.server.get(path_of(box, "usage")))["memory_bytes"], 0)
                self.hibernate(box)  # again is as good
                # Any use is one; here the counter itself is asked, by a command.
                after = self.ask(box, "more")
                self.assertEqual((after[0], after[1], after[3]), (3, before[1], before[3]))
                self.assertEqual(self.shell(box, "cat a /tmp/t"), "kept\nt\n")
                self.assertEqual(self.state(box), "running")
                listed = self.told(self.server.get(path_of(box, "processes")))["processes"]
                self.assertEqual([(one["id"], one["running"]) for one in listed], [(process, True)])

    def test_waking_by_every_way(self):
        box, process = self.counting(storage="disk")
        ways = {
            "resume": lambda: self.told(self.server.post(path_of(box, "resume"), timeout=SLOW)),
            "file": lambda: self.told(self.server.get(path_of(box, "list/"), timeout=SLOW)),
            "process": lambda: self.told(self.server.get(path_of(box, "processes", process), timeout=SLOW)),
            "tool": lambda: self.result(box, "file_list", path="."),
            "snapshot": lambda: self.keep(box),
            "fork": lambda: self.forked(box),
        }
        for name, way in ways.items():
            with self.subTest(way=name):
                self.hibernate(box)
                way()
                self.assertEqual(self.state(box), "running")
        self.assertEqual(self.ask(box)[0], 0)

    def test_it_outlives_the_server(self):
        box, _ = self.counting(storage="disk", name="sleeper")
        self.raised(box, 7)
        self.hibernate(box)
        self.server.stop()
        self.server.start()
        self.assertEqual(self.state(box), "hibernated")
        self.assertEqual(self.ask(box)[0], 7)

    def test_without_its_processes(self):
        box, _ = self.counting(storage="disk", persistent=True)
        self.shell(box, "echo kept >a")
        self.hibernate(box)
        self.refused(self.server.post(path_of(box, "pause")), 409, "Busy")
        shown = self.told(self.server.post(path_of(box, "start"), timeout=SLOW))
        self.assertEqual(shown["state"], "running")
        self.assertEqual(self.shell(box, "cat a"), "kept\n")
        self.assertEqual(self.told(self.server.get(path_of(box, "processes")))["processes"], [])

    def test_its_time_goes_on(self):
        box = self.make(resource_limits={"timeout_seconds": 3, "memory_mb": 256})
        self.hibernate(box)
        wait_for(lambda: self.server.get(path_of(box)).status == 404, "the end of its time")

    def test_nothing_of_it_stays(self):
        box, _ = self.counting(storage="disk")
        self.hibernate(box)
        self.assertIn(self.server.delete(path_of(box)).status, (200, 204))
        wait_for(lambda: self.memories() == 0, "an empty store")

    def test_nothing_stays_of_one_that_is_destroyed_while_it_is_saved(self):
        box, _ = self.counting(storage="disk")
        with concurrent.futures.ThreadPoolExecutor() as threads:
            asleep = threads.submit(self.server.post, path_of(box, "hibernate"), timeout=SLOW)
            wait_for(lambda: asleep.done() or self.memories() > 0, "a save")
            self.assertIn(self.server.delete(path_of(box)).status, (200, 204))
            self.assertIn(asleep.result().status, (200, 404, 410), asleep.result().body)
        wait_for(lambda: self.memories() == 0, "an empty store")


class Gvisor(Kept):
    tier = "gvisor"

    def test_what_gvisor_cannot_save(self):
        """It would end by being asked: so it is not asked."""
        listens = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 7000)); s.listen(); " \
                  "print('up', flush=True); time.sleep(1000)"
        one = self.make()
        self.background(one, f'exec python3 -c "{listens}"')
        two = self.make(network={"mode": "allowlist", "rules": [{"domain": "a.test"}]})
        for box, word in ((one, "7000"), (two, "network")):
            for path, wish in (("snapshots", {"memory": True}), ("fork", {"memory": True}), ("hibernate", None)):
                answer = self.server.post(path_of(box, path), wish)
                self.refused(answer, 501, "Unsupported", "memory")
                self.assertIn(word, answer.json["error"]["message"])
            self.assertEqual(self.shell(box, "echo alive"), "alive\n")


class MachineCase(MemoryCase):
    tier = "microvm"
    before_start = staticmethod(machines.set_up)

    def setUp(self):
        if why := machines.missing():
            self.skipTest(why)
        self.assertIn(self.tier, self.server.get("/api/v1/server").json["tiers"])

    def make(self, **wish):
        return super().make(**machines.small(self) | wish)


class Machine(MachineCase):
    """The short way through all of it, since its processor is emulated."""

    def test_it_forks_hibernates_and_wakes(self):
        box, process = self.counting()
        self.raised(box, 2)
        # The machine has the processors that it booted with, whatever may be used of them by now.
        self.told(self.server.request("PATCH", path_of(box, "limits"), {"cpu": 2}))
        child = self.forked(box)["id"]
        self.raised(child, 1)
        self.hibernate(box)
        self.refused(self.server.post(path_of(box, "start")), 501, "Unsupported")
        self.assertEqual(harness.groups_named([box]), [])
        told = [self.ask(one) for one in (child, box)]
        self.assertEqual([one[0] for one in told], [3, 2])
        self.assertEqual(told[0][1], told[1][1])
        for what in (2, 3):
            self.assertNotEqual(told[0][what], told[1][what])
        for one in (box, child):
            listed = self.told(self.server.get(path_of(one, "processes")))["processes"]
            self.assertEqual([(each["id"], each["running"]) for each in listed], [(process, True)])
        self.refused(self.server.post(path_of(box, "snapshots"), {}), 501, "Unsupported")


    def test_an_image_of_several_layers_is_refused(self):
        self.import_image(tar_of(machines.kit.image("python")), "local/layers:1")
        answer = self.server.post("/api/v1/sandboxes", {"tier": "microvm", "image": "local/layers:1"}, timeout=SLOW)
        self.assertTrue(self.storage()["kind"].startswith("btrfs"))
        self.refused(answer, 501, "Unsupported", "image")


class Microvm(MachineCase, Kept):
    """Its disk is in what is kept of it, and nowhere else: no files without memory, and nothing persistent."""

    def setUp(self):
        if not machines.wanted():
            self.skipTest(machines.SLOW)
        super().setUp()

    def test_without_its_processes(self):
        box, _ = self.counting()
        self.refused(self.server.post(path_of(box, "snapshots"), {}), 501, "Unsupported")
        answer = self.server.post("/api/v1/sandboxes", {"tier": "microvm", "persistent": True, "storage": "disk"})
        self.refused(answer, 501, "Unsupported")


class Native(MemoryCase):
    tier = "native"

    def test_it_is_refused_by_name(self):
        box, _ = self.counting(storage="disk")
        for path, wish in (("snapshots", {"memory": True}), ("fork", {"memory": True}), ("hibernate", None)):
            answer = self.server.post(path_of(box, path), wish)
            self.refused(answer, 501, "Unsupported", "memory")
            self.assertIn("gvisor", answer.json["error"]["message"])
        self.raised(box, 1)
        self.assertEqual(self.ask(box)[0], 1)
        made = self.snapshot(box)
        self.refused(self.server.post("/api/v1/sandboxes", {"snapshot": made["id"], "memory": True}), 400,
                     "InvalidArgument", "memory")


del Kept, MachineCase, MemoryCase, StoreCase

if __name__ == "__main__":
    harness.main()

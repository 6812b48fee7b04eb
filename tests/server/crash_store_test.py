"""The server or its worker dies at random points of pulls, snapshots, forks and removals. Whatever it had promised is
there when it starts again, whatever is listed can be used, and in the end nothing is left that nobody knows."""

import contextlib
import http.client
import os
import pathlib
import random
import signal
import sys
import threading
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "images")]
import harness  # noqa: E402
import kit  # noqa: E402
from harness import path_of, wait_for  # noqa: E402
from lying_registry import LyingRegistry  # noqa: E402
from store_case import SLOW, StoreCase, StoreServer, query  # noqa: E402

ROUNDS = 20
LIFE_SECONDS_MAX = 0.4  # of a round, until somebody dies
KEPT = 4  # snapshots from one round to the next
LOST = (OSError, http.client.HTTPException, ValueError)  # what a caller sees of a server that dies


class Crash(StoreCase):
    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(LyingRegistry())
        cls.registry.hold("kit/layered", "1", kit.image("layered"))
        cls.registry.hold("kit/debian", "1", kit.image("debian"))
        cls.server = StoreServer(config=f"images:\n  insecure: ['{cls.registry.address}']\n")
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def setUp(self):
        self.seed = int(os.environ.get("CAISSON_TEST_SEED", random.randrange(1 << 32)))
        self.random = random.Random(self.seed)
        self.promised = {}  # id of a snapshot → what its file n says
        self.unsure = set()  # snapshots whose removal was asked for
        self.number = self.written = 0  # the last that was tried, and the last that was said to be there
        self.failed = []  # commands that did not end as they should
        self.stop = threading.Event()

    # --- what goes on while somebody dies; each ends with the first sign of it

    def ask(self, *words, **more):
        answer = self.server.request(*words, timeout=harness.PATIENCE, **more)
        if answer.status in (502, 503):
            raise ConnectionError("the launcher is gone")
        return answer

    def take_snapshots(self, box):
        while not self.stop.is_set():
            self.number += 1
            number = str(self.number)
            wish = {"command": f"echo {number} >n; mkdir -p d/{number}; echo x >d/{number}/f"}
            done = self.ask("POST", path_of(box, "exec"), wish)
            if done.status != 200:
                return
            if done.json["exit_code"] != 0:
                self.failed.append(done.json)
                continue
            self.written = self.number
            made = self.ask("POST", path_of(box, "snapshots"), {"labels": {"n": number}})
            if made.status != 201:
                return
            self.promised[made.json["id"]] = number

    def take_forks(self, box):
        while not self.stop.is_set():
            made = self.ask("POST", path_of(box, "fork"), {})
            if made.status != 201:
                return
            self.server.ids.add(made.json["id"])
            if self.random.random() < 0.7:
                self.ask("DELETE", path_of(made.json["id"]))

    def remove_snapshots(self, _):
        while not self.stop.is_set():
            known = list(self.promised)
            if len(known) <= KEPT:
                self.stop.wait(0.005)
                continue
            one = self.random.choice(known)
            self.unsure.add(one)
            self.promised.pop(one)
            self.ask("DELETE", f"/api/v1/snapshots/{one}")

    def pull_images(self, _):
        while not self.stop.is_set():
            name = self.registry.reference(self.random.choice(("kit/layered:1", "kit/debian:1")))
            self.ask("POST", "/api/v1/images/pull", {"reference": name})
            if self.random.random() < 0.7:
                self.ask("DELETE", query("/api/v1/images", reference=name))
                self.ask("POST", "/api/v1/images/gc")

    # --- one round

    def live_and_die(self, box, victim):
        self.stop.clear()

        def until_it_dies(work):
            with contextlib.suppress(*LOST):
                work(box)

        works = (self.take_snapshots, self.take_forks, self.remove_snapshots, self.pull_images)
        threads = [threading.Thread(target=until_it_dies, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        worker = self.server.worker()
        # The moment of death is the input of this test; nothing is waited for.
        self.stop.wait(self.random.uniform(0, LIFE_SECONDS_MAX))
        if victim == "server":
            self.server.kill()
        else:
            self.server.look()
            os.kill(worker, signal.SIGKILL)
        self.stop.set()
        for thread in threads:
            thread.join(SLOW)
            self.assertFalse(thread.is_alive(), "a call of a dead server goes on")
        if victim == "server":
            self.server.start()

    def check(self, box):
        self.assertEqual(self.failed, [])
        self.wake(box)
        self.assertGreaterEqual(int(self.shell(box, "cat n")), self.written, "the sandbox has lost files of its own")
        listed = {one["id"]: one for one in self.snapshots()}
        self.assertEqual(set(self.promised) - set(listed), set(), "promised, and not there")
        for one in listed.values():
            made = self.server.create(snapshot=one["id"])
            said = self.shell(made, "cat n && cat d/$(cat n)/f")
            state = "promised" if one["id"] in self.promised else "not promised"
            self.assertEqual(said, f"{one['labels']['n']}\nx\n", f"{state}: {one}")
            self.server.delete(path_of(made))
        for reference in self.images():
            made = self.server.create(image=reference)
            self.assertEqual(self.shell(made, "echo here; test -d /usr/bin"), "here\n")
            self.server.delete(path_of(made))
        for line in self.server.log().splitlines():
            self.assertNotRegex(line, r"(?i)\b(error|critical|corrupt|assert)")
        for one in self.told(self.server.get("/api/v1/sandboxes"))["sandboxes"]:
            if one["id"] != box:
                self.server.delete(path_of(one["id"]))
        self.promised = {id_: one["labels"]["n"] for id_, one in listed.items()}

    def wake(self, box):
        """A new worker needs a moment; what was lost with the old one is told first."""

        answers = []

        def running():
            answers.append(self.server.post(path_of(box, "start")))
            if answers[-1].status == 200:
                answers.append(self.server.post(path_of(box, "exec"), {"command": "cat n"}))
            return answers[-1].status == 200

        try:
            wait_for(running, "the sandbox to be there again")
        except AssertionError as error:
            raise AssertionError(f"{error}: {answers[-1].body}") from None

    def store(self):
        """The folders of the store, through the worker that holds them: nobody else sees them."""
        root = f"/proc/{self.server.worker()}/fd"
        for name in os.listdir(root):
            with contextlib.suppress(OSError):
                if os.readlink(f"{root}/{name}").endswith("/store") and "layers" in os.listdir(f"{root}/{name}"):
                    return {one: os.listdir(f"{root}/{name}/{one}") for one in os.listdir(f"{root}/{name}")}
        raise unittest.SkipTest("the worker's store is not to be seen")

    def test_at_random_points(self):
        box = self.server.create(persistent=True, resource_limits={"disk_mb": 200})
        self.shell(box, "echo 0 >n; mkdir -p d/0; echo x >d/0/f")
        for round_ in range(ROUNDS):
            victim = self.random.choice(("server", "server", "worker"))
            try:
                self.live_and_die(box, victim)
                self.check(box)
            except AssertionError as error:
                raise AssertionError(f"seed {self.seed}, round {round_}, the {victim} died: {error}") from error
        self.nothing_unknown(box)

    def nothing_unknown(self, box):
        for one in self.snapshots():
            self.assertEqual(self.server.delete(f"/api/v1/snapshots/{one['id']}").status, 204)
        for reference in self.images():
            self.assertEqual(self.remove_image(reference).status, 204)
        self.assertIn(self.server.delete(path_of(box)).status, (200, 204))
        self.collect()
        try:
            wait_for(lambda: not any(self.store()[one] for one in ("layers", "making", "trash")), "an empty store")
        except AssertionError:
            raise AssertionError(f"seed {self.seed}: left in the store: {self.store()}") from None
        blobs = self.server.state / "server/images/blobs"
        self.assertTrue(blobs.is_dir())
        self.assertEqual([str(one) for one in blobs.rglob("*") if one.is_file()], [])
        self.server.stop()
        self.server.wait_until_clean()


if __name__ == "__main__":
    harness.main()

"""Sandboxes that nobody uses rest, and are there again as soon as somebody does."""

import concurrent.futures
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import harness  # noqa: E402
from harness import path_of, wait_for  # noqa: E402
from store_case import StoreCase, query  # noqa: E402

MIB = 1 << 20
SOON = 0.4
USERS = 8
SERVE = ("python3 -c 'import http.server as h; s = h.HTTPServer((\"127.0.0.1\", 8000), h.SimpleHTTPRequestHandler); "
         "print(\"up\", flush=True); s.serve_forever()'")


class Resting(StoreCase):
    def rest(self, **wish):
        limits = {"rest_seconds": SOON, **wish.pop("resource_limits", {})}
        return self.create(resource_limits=limits, **wish)

    def shown(self, box):
        return self.told(self.server.get(path_of(box)))

    def until_resting(self, box):
        wait_for(lambda: self.shown(box)["resting"], "rest")
        self.assertEqual(self.frozen(box), "1")

    @staticmethod
    def frozen(box):
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            group = pathlib.Path(root, f"caisson-{box}", "cgroup.freeze")
            if group.exists():
                return group.read_text(encoding="ascii").strip()
        return None

    def rests(self, box):
        return len(self.told(self.server.get(query("/api/v1/audit", action="sandbox.rest", sandbox=box)))["rows"])

    def memory(self, box):
        return self.told(self.server.get(path_of(box, "usage")))["memory_bytes"]

    def test_it_rests_and_is_woken_by_a_use(self):
        box = self.rest()
        process = self.background(box)
        self.until_resting(box)
        shown = self.shown(box)
        self.assertEqual((shown["state"], shown["resource_limits"]["rest_seconds"]), ("running", SOON))
        self.assertEqual(self.shell(box, "echo awake"), "awake\n")
        self.assertEqual((self.shown(box)["resting"], self.frozen(box)), (False, "0"))
        there = self.told(self.server.get(path_of(box, f"processes/{process}")))
        self.assertTrue(there["running"])
        self.until_resting(box)
        wait_for(lambda: self.rests(box) >= 2, "a row for each rest")

    def test_its_memory_is_taken_back(self):
        box = self.rest(storage="disk", resource_limits={"memory_mb": 256, "disk_mb": 128})
        self.shell(box, "head -c 48000000 /dev/zero >big")
        held = self.memory(box)
        self.assertGreater(held, 40 * MIB)
        wait_for(lambda: self.memory(box) < held - 40 * MIB, "memory that is taken back")
        self.until_resting(box)
        self.assertEqual(self.shell(box, "wc -c <big").strip(), "48000000")

    def test_who_works_does_not_rest(self):
        works, idle = self.rest(), self.rest()
        self.background(works, "echo up; while :; do :; done")
        self.until_resting(idle)
        self.shell(idle, "true")
        self.until_resting(idle)
        self.assertEqual((self.shown(works)["resting"], self.frozen(works)), (False, "0"))

    def test_a_port_wakes_it(self):
        box = self.rest(tools=["shell_exec"])
        self.background(box, SERVE)
        self.until_resting(box)
        answer = self.server.get(path_of(box, "ports/8000/"))
        self.assertEqual(answer.status, 200)

    def test_many_users_at_once(self):
        box = self.rest()
        self.until_resting(box)
        with concurrent.futures.ThreadPoolExecutor(USERS) as pool:
            done = list(pool.map(lambda _: self.shell(box, "echo here"), range(USERS)))
        self.assertEqual(done, ["here\n"] * USERS)

    def test_a_pause_is_not_a_rest(self):
        box = self.rest()
        self.until_resting(box)
        self.assertEqual(self.told(self.server.post(path_of(box, "pause")))["state"], "paused")
        self.refused(self.server.post(path_of(box, "exec"), {"command": "true"}), 409, "Busy")
        shown = self.told(self.server.post(path_of(box, "resume")))
        self.assertEqual((shown["state"], shown["resting"]), ("running", False))
        self.shell(box, "true")

    def test_files_of_one_that_rests(self):
        box = self.rest(storage="disk")
        self.shell(box, "echo one >a")
        self.until_resting(box)
        fork = self.fork(box)["id"]
        self.assertEqual(self.shell(fork, "cat a"), "one\n")
        self.until_resting(fork)
        self.assertEqual(self.server.delete(path_of(fork)).status, 204)

    def test_it_can_be_turned_off(self):
        box = self.rest()
        shown = self.told(self.server.request("PATCH", path_of(box, "limits"), {"rest_seconds": 0}))
        self.assertIsNone(shown["resource_limits"]["rest_seconds"])


class Many(StoreCase):
    """What a living sandbox costs in descriptors, beyond the few whose maps the launcher keeps."""

    config = "sandbox: {max_concurrent: 200, timeout_seconds: 0, resource_limits: {memory_mb: 64, processes: 16}}\n"
    KEPT, MORE = 70, 100
    IN_THE_LAUNCHER, IN_THE_SERVER = 3, 8
    MADE_AHEAD = 60  # descriptors of those that come and go

    def descriptors(self):
        server, launcher = self.server.process.pid, self.server.worker()
        return [len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())) for pid in (launcher, server)]

    def test_descriptors(self):
        for _ in range(self.KEPT):
            self.create()
        before = self.descriptors()
        for _ in range(self.MORE):
            self.create()
        launcher, server = (now - then for now, then in zip(self.descriptors(), before))
        self.assertLessEqual(launcher, self.IN_THE_LAUNCHER * self.MORE + self.MADE_AHEAD)
        self.assertLessEqual(server, self.IN_THE_SERVER * self.MORE)


if __name__ == "__main__":
    harness.main()

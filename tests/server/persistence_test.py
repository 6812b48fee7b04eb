"""What stays and what goes: sandboxes that outlive the server, volumes, and a store that holds nothing else."""

import os
import pathlib
import signal
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import harness  # noqa: E402
from harness import path_of, wait_for  # noqa: E402
from store_case import StoreCase, StoreServer, query  # noqa: E402

MIB = 1 << 20


class OwnServer(StoreCase):
    """A server for each test: these end it."""

    def setUp(self):
        super().setUp()
        self.server = StoreServer(*self.flags, config=self.config)
        self.addCleanup(self.server.close)
        self.server.start()

    @classmethod
    def setUpClass(cls):
        pass

    def again(self):
        self.server.start()

    def fork(self, box, **wish):
        """It goes with the server, which may be gone when the test ends."""
        made = self.told(self.server.post(path_of(box, "fork"), wish), 201)
        self.server.ids.add(made["id"])
        return made

    def state(self, box):
        return self.told(self.server.get(path_of(box)))["state"]

    def start_box(self, box):
        return self.told(self.server.post(path_of(box, "start")))

    def keep(self, **wish):
        """A persistent sandbox with a few files; it goes with the state directory."""
        box = self.server.create(persistent=True, **wish)
        self.shell(box, "mkdir d; echo one >d/a; ln -s d/a link; chmod 640 d/a; echo t >/tmp/t")
        return box

    def check(self, box):
        self.assertEqual(self.shell(box, "cat link; stat -c %a d/a; ls /tmp"), "one\n640\n")
        self.shell(box, "echo more >>d/b && cat d/b")


class Persistent(OwnServer):
    def test_stop_and_start(self):
        box = self.keep(name="desk", env={"MINE": "1"}, labels={"a": "b"}, resource_limits={"memory_mb": 300})
        before = self.told(self.server.get(path_of(box)))
        self.assertEqual((before["persistent"], before["storage"]), (True, "disk"))
        self.background(box)
        stopped = self.told(self.server.post(path_of(box, "stop")))
        self.assertEqual(stopped["state"], "stopped")
        self.told(self.server.post(path_of(box, "stop")))
        self.assertIn(box, [one["id"] for one in self.told(self.server.get("/api/v1/sandboxes"))["sandboxes"]])
        self.refused(self.server.post(path_of(box, "exec"), {"command": "true"}), 409, "Busy")
        self.refused(self.server.post("/api/v1/sandboxes", {"name": "desk"}), 409, "AlreadyExists")
        after = self.start_box(box)
        self.assertEqual(after["state"], "running")
        for same in ("id", "name", "labels", "resource_limits", "user", "workdir", "created_at", "image", "tools"):
            self.assertEqual(after[same], before[same], same)
        self.start_box(box)
        self.check(box)
        self.assertEqual(self.shell(box, "echo $MINE"), "1\n")
        listed = self.told(self.server.get(path_of(box, "processes")))["processes"]
        self.assertEqual([one for one in listed if one["running"]], [])

    def test_any_other_is_refused(self):
        box = self.server.create(storage="disk")
        self.refused(self.server.post(path_of(box, "stop")), 409, "Busy")
        self.assertEqual(self.state(box), "running")

    def test_over_the_end_of_the_server(self):
        box = self.keep()
        kept = self.snapshot(box, name="kept")["id"]
        brief = self.server.create(storage="disk")
        self.server.stop()
        self.again()
        self.assertEqual(self.state(box), "stopped")
        self.assertIn(self.server.get(path_of(brief)).status, (404, 410))
        self.start_box(box)
        self.check(box)
        self.assertEqual([one["id"] for one in self.snapshots(box)], [kept])
        self.assertEqual(self.shell(self.server.create(snapshot="kept"), "cat d/a"), "one\n")

    def test_over_the_death_of_the_server(self):
        box, brief = self.keep(), self.server.create(storage="disk")
        self.background(box)
        self.shell(brief, "echo brief >a")
        kept = self.snapshot(brief)["id"]
        self.server.kill()
        self.again()
        # Both live on with their processes.
        self.assertEqual((self.state(box), self.state(brief)), ("running", "running"))
        self.assertEqual(self.shell(box, "cat link /tmp/t"), "one\nt\n")
        self.assertEqual(self.shell(brief, "cat a"), "brief\n")
        self.assertEqual(self.shell(self.server.create(snapshot=kept), "cat a"), "brief\n")
        self.snapshot(brief)

    def test_over_the_death_of_the_worker(self):
        box, brief = self.keep(), self.server.create(storage="disk")
        self.shell(brief, "echo brief >a")
        kept = self.snapshot(brief)["id"]
        worker = self.server.worker()
        self.server.look()
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: self.state(box) == "stopped", "the end of a sandbox that lost its launcher")
        wait_for(lambda: self.server.get(path_of(brief)).json.get("state") in (None, "ended"), "the end of the other")
        wait_for(lambda: self.server.post(path_of(box, "start")).status == 200, "a launcher that is there again")
        self.check(box)
        self.assertEqual(self.shell(self.server.create(snapshot=kept), "cat a"), "brief\n")
        self.told(self.server.post(path_of(box, "stop")))
        self.start_box(box)
        self.check(box)

    def test_snapshots_forks_and_undo_of_one(self):
        box = self.keep(checkpoint="each_call")
        self.shell(box, "echo two >d/a")
        fork = self.fork(box)
        self.assertTrue(fork["persistent"])
        self.told(self.server.post(path_of(box, "stop")))
        self.refused(self.server.post(path_of(box, "snapshots"), {}), 409, "Busy")
        self.start_box(box)
        self.undo(box)
        self.assertEqual(self.server.get(path_of(box, "files/d/a")).body, b"one\n")
        self.assertEqual(self.shell(fork["id"], "cat d/a"), "two\n")
        self.server.stop()
        self.again()
        for id_, want in ((box, "one\n"), (fork["id"], "two\n")):
            self.start_box(id_)
            self.assertEqual(self.shell(id_, "cat d/a"), want)

    def test_removed_it_is_gone_for_good(self):
        box = self.keep()
        self.told(self.server.post(path_of(box, "stop")))
        self.assertIn(self.server.delete(path_of(box)).status, (200, 204))
        self.server.stop()
        self.again()
        self.assertIn(self.server.get(path_of(box)).status, (404, 410))


class Volumes(StoreCase):
    def volume(self, name, size=64 * MIB):
        made = self.told(self.server.put(f"/api/v1/volumes/{name}", {"bytes": size}))
        self.addCleanup(self.server.delete, f"/api/v1/volumes/{name}")
        return made

    def listed(self, **more):
        return {one["name"]: one for one in self.told(self.server.get("/api/v1/volumes", **more))["volumes"]}

    def test_two_share_one(self):
        made = self.volume("shared")
        self.assertEqual((made["name"], made["bytes_max"], made["sandboxes"]), ("shared", 64 * MIB, []))
        one = self.create(volumes=[{"name": "shared", "path": "/data"}])
        two = self.create(volumes=[{"name": "shared", "path": "/models", "read_only": True}])
        self.shell(one, "echo x >/data/x")
        self.assertEqual(self.shell(two, "cat /models/x"), "x\n")
        for trick in ("echo y >/models/y", "rm /models/x", "chmod 777 /models/x", "mkdir /models/d"):
            self.fails(two, trick)
        self.shell(one, "echo z >>/data/x")
        self.assertEqual(self.shell(two, "cat /models/x"), "x\nz\n")
        self.assertEqual(set(self.listed()["shared"]["sandboxes"]), {one, two})
        self.refused(self.server.delete("/api/v1/volumes/shared"), 409, "Busy")
        for box in (one, two):
            self.server.delete(path_of(box))
        three = self.create(volumes=[{"name": "shared", "path": "/deep/er/data"}])
        self.assertEqual(self.shell(three, "cat /deep/er/data/x"), "x\nz\n")

    def test_its_limit_holds_and_can_be_changed(self):
        self.volume("small", 16 * MIB)
        box = self.create(volumes=[{"name": "small", "path": "/data"}])
        self.fails(box, "head -c 40M /dev/urandom >/data/large")
        self.assertLessEqual(int(self.shell(box, "stat -c %s /data/large")), 16 * MIB)
        self.shell(box, "rm /data/large; echo ok >/data/ok")
        self.told(self.server.put("/api/v1/volumes/small", {"bytes": 64 * MIB}))
        self.assertEqual(self.listed()["small"]["bytes_max"], 64 * MIB)
        self.shell(box, "head -c 40M /dev/urandom >/data/large; cat /data/ok")

    def test_it_is_in_no_snapshot(self):
        self.volume("apart")
        box = self.create(storage="disk", volumes=[{"name": "apart", "path": "/data"}])
        self.shell(box, "echo v >/data/v; echo w >w")
        kept = self.snapshot(box)["id"]
        again = self.create(snapshot=kept)
        self.assertEqual(self.shell(again, "cat w; ls -A /data 2>/dev/null || true"), "w\n")
        fork = self.fork(box)["id"]
        self.shell(fork, "echo f >>/data/v")
        self.assertEqual(self.shell(box, "cat /data/v"), "v\nf\n")

    def test_it_may_be_the_workspace(self):
        for root in ("read_only", "writable"):
            for uid in (0, 1000):
                with self.subTest(root=root, uid=uid):
                    name = f"work.{root}.{uid}".replace("_", "-")
                    self.volume(name)
                    wish = {"filesystem": {"root": root}, "user": uid, "storage": "disk",
                            "volumes": [{"name": name, "path": "/workspace"}]}
                    box = self.create(**wish)
                    self.assertEqual(self.shell(box, "stat -c %u:%g . ; grep -c ' /workspace ' /proc/self/mountinfo; "
                                                     "echo one >a; mkdir d; echo two >d/b; cat a d/b"),
                                     f"{uid}:{uid}\n1\none\ntwo\n")
                    self.told(self.server.put(path_of(box, "files/c"), b"three\n"))
                    kept = self.snapshot(box)["id"]
                    self.shell(box, "echo four >e; cat c")
                    self.told(self.server.post(path_of(box, "undo"), {"snapshot": kept, "end_processes": True}))
                    self.assertEqual(self.shell(box, "cat a c e; stat -c %u .; echo five >f; "
                                                     "grep -c ' /workspace ' /proc/self/mountinfo"),
                                     f"one\nthree\nfour\n{uid}\n1\n")
                    plain = self.create(snapshot=kept)
                    self.assertEqual(self.shell(plain, "ls -A"), "")
                    other = self.create(**{**wish, "user": 1001})
                    self.assertEqual(self.shell(other, "cat f; stat -c %u .; echo six >g"), f"five\n{uid}\n")
                    reader = self.create(filesystem={"root": root}, volumes=[{"name": name, "path": "/workspace", "read_only": True}])
                    self.assertEqual(self.shell(reader, "cat g; echo x >h 2>/dev/null || echo no"), "six\nno\n")

    def test_what_is_refused(self):
        self.volume("known")
        for wish, field in (({"name": "none", "path": "/data"}, None), ({"name": "known", "path": "data"}, None),
                            ({"name": "known", "path": "/proc/x"}, None), ({"name": "known", "path": "/"}, None),
                            ({"name": "known", "path": "/a/../.."}, None)):
            answer = self.server.post("/api/v1/sandboxes", {"volumes": [wish]})
            self.assertIn((answer.status, answer.json["error"]["code"]),
                          ((400, "InvalidArgument"), (404, "NotFound"), (403, "Denied")), wish)
        for name in ("..", "a%2Fb", "x" * 41, "UPPER%20CASE"):
            answer = self.server.put(f"/api/v1/volumes/{name}", {"bytes": 16 * MIB})
            self.assertIn(answer.status, (400, 403, 404), name)
        self.refused(self.server.put("/api/v1/volumes/tiny", {"bytes": 1}), 400, "InvalidArgument", "bytes")
        self.refused(self.server.delete("/api/v1/volumes/none"), 404, "NotFound")

    def test_another_tenant_has_its_own(self):
        self.volume("mine")
        box = self.create(volumes=[{"name": "mine", "path": "/data"}])
        self.shell(box, "echo secret >/data/a")
        token = self.tenant("others")
        self.assertEqual(self.listed(token=token), {})
        self.refused(self.server.delete("/api/v1/volumes/mine", token=token), 404, "NotFound")
        wish = {"volumes": [{"name": "mine", "path": "/data"}]}
        answer = self.server.post("/api/v1/sandboxes", wish, token=token)
        self.assertIn(answer.status, (400, 404), answer.body)
        self.told(self.server.put("/api/v1/volumes/mine", {"bytes": 16 * MIB}, token=token))
        own = self.told(self.server.post("/api/v1/sandboxes", wish, token=token), 201)["id"]
        said = self.told(self.server.post(path_of(own, "exec"), {"command": "ls -A /data"}, token=token))
        self.assertEqual(said["stdout"], "")
        self.server.delete(path_of(own), token=token)
        self.assertEqual(self.server.delete("/api/v1/volumes/mine", token=token).status, 204)
        self.assertEqual(self.shell(box, "cat /data/a"), "secret\n")


class VolumesStay(OwnServer):
    def test_over_the_end_of_the_server(self):
        self.told(self.server.put("/api/v1/volumes/kept", {"bytes": 64 * MIB}))
        box = self.server.create(persistent=True, volumes=[{"name": "kept", "path": "/data"}])
        self.shell(box, "echo x >/data/x")
        self.server.stop()
        self.again()
        self.assertEqual(self.told(self.server.get("/api/v1/volumes"))["volumes"][0]["name"], "kept")
        self.refused(self.server.delete("/api/v1/volumes/kept"), 409, "Busy")
        self.start_box(box)
        self.assertEqual(self.shell(box, "cat /data/x"), "x\n")


class NothingLeft(OwnServer):
    def test_what_a_brief_sandbox_wrote_goes_with_it(self):
        warm = self.server.create(storage="disk")
        self.shell(warm, "sync")
        self.server.delete(path_of(warm))
        before = self.storage()
        self.assertTrue(before["limits"] and before["live_snapshots"], before)
        boxes = [self.server.create(storage="disk") for _ in range(3)]
        for box in boxes:
            self.shell(box, "head -c 30M /dev/urandom >large; sync")
        kept = self.snapshot(boxes[0])["id"]
        fork = self.fork(boxes[1])["id"]
        self.told(self.server.get(query("/api/v1/diff", **{"from": f"sandbox:{boxes[0]}", "to": f"sandbox:{fork}"})))
        self.assertLess(self.storage()["free_bytes"], before["free_bytes"] - 60 * MIB)
        for box in (*boxes, fork):
            self.server.delete(path_of(box))
        self.assertEqual(self.server.delete(f"/api/v1/snapshots/{kept}").status, 204)
        wait_for(lambda: self.storage()["free_bytes"] > before["free_bytes"] - 4 * MIB, "the space to come back",
                 3 * harness.PATIENCE)
        self.server.stop()
        self.server.wait_until_clean()

    def test_the_disk_limit_holds(self):
        box = self.server.create(storage="disk", resource_limits={"disk_mb": 32})
        self.fails(box, "head -c 100M /dev/urandom >large")
        self.assertLessEqual(int(self.shell(box, "stat -c %s large")), 32 * MIB)
        self.shell(box, "rm large; echo ok >ok; cat ok")
        fork = self.fork(box)["id"]
        self.fails(fork, "head -c 100M /dev/urandom >large")
        self.assertLessEqual(int(self.shell(fork, "stat -c %s large")), 32 * MIB)


if __name__ == "__main__":
    harness.main()

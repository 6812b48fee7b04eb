"""Files through time: snapshots, forks, undo, diff and merge, as a client sees them."""

import concurrent.futures
import pathlib
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import harness  # noqa: E402
from harness import path_of, wait_for  # noqa: E402
from store_case import StoreCase, need, outside, query  # noqa: E402

FORKS = 20
COMMANDS = 400  # beside forks


class Snapshots(StoreCase):
    def test_one_of_a_quiet_sandbox_is_stacked(self):
        box = self.create(storage="disk")
        self.shell(box, "echo one >a; mkdir folder; echo x >folder/x; echo t >/tmp/t")
        made = self.snapshot(box, name="quiet", labels={"why": "test"})
        self.assertEqual((made["kind"], made["name"], made["sandbox"], made["parent"], made["labels"], made["image"]),
                         ("stacked", "quiet", box, "", {"why": "test"}, "host"))
        self.assertNotEqual(made["consistency"], "")
        self.assertGreaterEqual(made["layers"], 1)
        self.shell(box, "echo two >a; rm -r folder")
        again = self.create(snapshot="quiet")
        self.assertEqual(self.shell(again, "cat a folder/x; ls /tmp"), "one\nx\n")
        self.assertEqual(self.shell(box, "cat a; cat /tmp/t"), "two\nt\n")
        self.assertEqual(self.told(self.server.get(path_of(again)))["parent"], made["id"])
        path = f"/api/v1/snapshots/{made['id']}"
        wait_for(lambda: self.told(self.server.get(path))["durable"], "a durable snapshot")

    def test_with_a_process_it_is_cow(self):
        box = self.create(storage="disk")
        self.background(box, "echo up; while :; do date >>log; sleep 0.01; done")
        self.shell(box, "echo one >a; mkdir deep; cd deep; echo x >x")
        made = self.snapshot(box)
        self.assertEqual(made["kind"], "cow")
        before = int(self.shell(box, "wc -l <log"))
        # The process goes on, and in the same file.
        wait_for(lambda: int(self.shell(box, "wc -l <log")) > before, "a process that goes on")
        self.shell(box, "echo two >a")
        again = self.create(snapshot=made["id"])
        self.assertEqual(self.shell(again, "cat a deep/x"), "one\nx\n")
        self.assertLessEqual(int(self.shell(again, "wc -l <log")), before)

    def test_in_memory_it_is_copied(self):
        box = self.create(storage="memory")
        self.background(box)
        self.shell(box, "echo one >a; ln -s a link; ln a hard; chmod 640 a")
        made = self.snapshot(box)
        self.assertEqual(made["kind"], "copied")
        self.shell(box, "rm a link")
        again = self.create(snapshot=made["id"])
        self.assertEqual(self.shell(again, "cat link; stat -c '%a %h' a hard"), "one\n640 2\n640 2\n")

    def test_too_much_to_copy_is_busy_and_says_what_helps(self):
        box = self.create(storage="memory", resource_limits={"disk_mb": 700, "memory_mb": 1024})
        self.shell(box, "head -c 540M /dev/zero >large")
        answer = self.server.post(path_of(box, "snapshots"), {})
        self.refused(answer, 409, "Busy")
        self.assertIn("disk", answer.json["error"]["message"])
        self.assertEqual(self.snapshots(box), [])
        self.assertEqual(self.shell(box, "stat -c %s large"), f"{540 << 20}\n")

    def test_names(self):
        box = self.create(storage="disk")
        made = self.snapshot(box, name="named")
        self.refused(self.server.post(path_of(box, "snapshots"), {"name": "named"}), 409, "AlreadyExists")
        self.assertEqual(self.told(self.server.get("/api/v1/snapshots/named"))["id"], made["id"])
        for bad in ("a/b", "x" * 129, "a\nb"):
            self.refused(self.server.post(path_of(box, "snapshots"), {"name": bad}), 400, "InvalidArgument", "name")
        self.assertEqual(self.server.delete("/api/v1/snapshots/named").status, 204)
        self.refused(self.server.get("/api/v1/snapshots/named"), 404, "NotFound")
        self.snapshot(box, name="named")

    def test_a_tree_of_parents_and_one_removed_in_the_middle(self):
        box = self.create(storage="disk")
        made = []
        for number in range(4):
            self.shell(box, f"echo {number} >n; echo x >only-{number}")
            made.append(self.snapshot(box)["id"])
        listed = [one for one in self.snapshots(box) if one["id"] in made]
        self.assertEqual([one["id"] for one in listed], made)
        self.assertEqual([one["parent"] for one in listed], ["", *made[:3]])
        branch = self.create(snapshot=made[1])
        self.shell(branch, "echo branch >n")
        leaf = self.snapshot(branch)
        self.assertEqual(leaf["parent"], made[1])
        for id_ in (made[1], made[0]):
            self.assertEqual(self.server.delete(f"/api/v1/snapshots/{id_}").status, 204)
        self.assertEqual(self.shell(branch, "cat n only-0"), "branch\nx\n")
        for id_, want in ((made[2], "2\nx\n"), (made[3], "3\nx\n"), (leaf["id"], "branch\nx\n")):
            self.assertEqual(self.shell(self.create(snapshot=id_), "cat n only-1"), want)
        self.assertEqual(self.shell(box, "cat n only-0"), "3\nx\n")
        self.refused(self.server.post("/api/v1/sandboxes", {"snapshot": made[1]}), 404, "NotFound")

    def test_they_outlive_their_sandbox(self):
        box = self.server.create(storage="disk")
        self.shell(box, "echo one >a")
        kept = self.snapshot(box)["id"]
        self.assertIn(self.server.delete(path_of(box)).status, (200, 204))
        self.assertEqual([one["id"] for one in self.snapshots(box)], [kept])
        self.assertEqual(self.shell(self.create(snapshot=kept), "cat a"), "one\n")

    def test_removed_files_and_folders_stay_removed(self):
        box = self.create(storage="disk")
        self.shell(box, "mkdir -p d/e; echo x >d/e/f; echo y >d/g; echo z >h")
        self.snapshot(box)
        self.shell(box, "rm -r d; mkdir d; echo new >d/new; rm h; mkdir h")
        kept = self.snapshot(box)["id"]
        again = self.create(snapshot=kept)
        self.assertEqual(self.shell(again, "find d h | sort"), "d\nd/new\nh\n")

    def test_many_in_a_row(self):
        """More than one stack may hold: layers become one in the background."""
        box = self.create(storage="disk")
        for number in range(60):
            self.shell(box, f"echo {number} >n-{number}; rm -f n-{number - 2}")
            last = self.snapshot(box)["id"]
        self.assertEqual(self.shell(self.create(snapshot=last), "ls n-*"), "n-58\nn-59\n")
        self.assertEqual(self.shell(box, "ls n-*"), "n-58\nn-59\n")

    def test_what_is_not_there(self):
        self.refused(self.server.get("/api/v1/snapshots/none"), 404, "NotFound")
        self.refused(self.server.delete("/api/v1/snapshots/none"), 404, "NotFound")
        self.refused(self.server.post("/api/v1/sandboxes", {"snapshot": "none"}), 404, "NotFound")


class Forks(StoreCase):
    def test_both_go_their_own_way(self):
        box = self.create(storage="disk", env={"MINE": "1"}, labels={"a": "b"})
        self.shell(box, "echo common >a; echo t >/tmp/t")
        fork = self.fork(box, name="forked", labels={"c": "d"})
        self.assertEqual((fork["parent"], fork["name"], fork["storage"], fork["labels"], fork["state"]),
                         (box, "forked", "disk", {"a": "b", "c": "d"}, "running"))
        self.assertEqual(self.shell(fork["id"], "cat a; echo $MINE; ls /tmp"), "common\n1\n")
        self.shell(box, "echo first >a; echo f >first")
        self.shell(fork["id"], "echo second >a; echo s >second")
        self.assertEqual(self.shell(box, "cat a; ls"), "first\na\nfirst\n")
        self.assertEqual(self.shell(fork["id"], "cat a; ls"), "second\na\nsecond\n")

    def test_with_a_process_and_from_memory(self):
        for storage in ("disk", "memory"):
            with self.subTest(storage):
                box = self.create(storage=storage)
                self.shell(box, "echo common >a")
                self.background(box)
                fork = self.fork(box)["id"]
                self.assertEqual(self.shell(fork, "cat a"), "common\n")
                running = self.told(self.server.get(path_of(fork, "processes")))["processes"]
                self.assertEqual([one for one in running if one["running"]], [])
                self.shell(fork, "echo second >a")
                self.assertEqual(self.shell(box, "cat a"), "common\n")

    def test_twenty_at_once(self):
        box = self.create(storage="disk", resource_limits={"memory_mb": 64})
        self.shell(box, "head -c 20M /dev/urandom >large; echo common >a; sync")
        sum_ = self.shell(box, "sha256sum large")
        free = self.storage()["free_bytes"]
        with concurrent.futures.ThreadPoolExecutor(FORKS) as pool:
            forks = [one["id"] for one in pool.map(lambda _: self.fork(box), range(FORKS))]
        self.assertEqual(len(set(forks)), FORKS)
        for number, fork in enumerate(forks):
            self.shell(fork, f"echo {number} >a")
        for number, fork in enumerate(forks):
            self.assertEqual(self.shell(fork, "cat a; sha256sum large"), f"{number}\n{sum_}")
        self.assertEqual(self.shell(box, "cat a"), "common\n")
        # Not one more copy of what they share.
        self.assertLess(free - self.storage()["free_bytes"], 15 << 20)

    def test_commands_go_on_while_forks_are_taken(self):
        """The files under the sandbox are exchanged between two of its commands, and none of them notices."""
        box = self.create(storage="disk")
        stop = threading.Event()

        def fork():
            while not stop.is_set():
                answer = self.server.post(path_of(box, "fork"), {})
                # It never rests here, so its layers cannot become one: at their most it says so.
                if answer.status == 409 and b"as many layers as it may have" in answer.body:
                    continue
                self.server.delete(path_of(self.told(answer, 201)["id"]))

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            forks = pool.submit(fork)
            try:
                for number in range(COMMANDS):
                    self.assertEqual(self.shell(box, f"echo {number} >n; cat n"), f"{number}\n")
                    answer = self.server.get(path_of(box, "files/n"))
                    self.assertEqual((answer.status, answer.body), (200, b"%d\n" % number))
            finally:
                stop.set()
            forks.result(harness.PATIENCE)

    def test_memory_is_refused(self):
        box = self.create(storage="disk")
        self.refused(self.server.post(path_of(box, "fork"), {"memory": True}), 501, "Unsupported", "memory")

    def test_a_fork_of_a_fork_of_one_that_is_gone(self):
        box = self.server.create(storage="disk")
        self.shell(box, "echo 0 >a")
        ids = [box]
        for number in range(1, 4):
            ids.append(self.fork(ids[-1])["id"])
            self.shell(ids[-1], f"echo {number} >>a")
            self.server.delete(path_of(ids[-2]))
        self.assertEqual(self.shell(ids[-1], "cat a"), "0\n1\n2\n3\n")

    def test_time_to_live_is_the_parents(self):
        box = self.create(storage="disk", resource_limits={"timeout_seconds": 600})
        fork = self.fork(box)
        parent = self.told(self.server.get(path_of(box)))
        self.assertLessEqual(fork["expires_at"][:19], parent["expires_at"][:19])


class Undo(StoreCase):
    def test_calls_are_undone_one_by_one_and_together(self):
        box = self.create(checkpoint="each_call")
        self.assertEqual(self.told(self.server.get(path_of(box)))["storage"], "disk")
        for number in range(5):
            self.shell(box, f"echo {number} >a; echo x >f{number}")
        done = self.undo(box)
        self.assertEqual((done["calls"], done["left"]), (1, 4))
        self.assertEqual(self.cat(box, "a"), b"3\n")
        done = self.undo(box, calls=3)
        self.assertEqual((done["calls"], done["left"]), (3, 1))
        self.assertEqual(self.cat(box, "a"), b"0\n")
        self.assertEqual(self.names(box), ["a", "f0"])
        # What comes now is a call of its own, which can be undone, too.
        self.shell(box, "rm a")
        self.undo(box)
        self.assertEqual(self.names(box), ["a", "f0"])
        self.undo(box)
        self.assertEqual(self.names(box), [])
        answer = self.server.post(path_of(box, "undo"), {})
        self.refused(answer, 400, "InvalidArgument", "calls")

    def names(self, box):
        """Looking is no call that changes anything, so it is not one that is undone."""
        said = self.told(self.server.get(path_of(box, "list/")))
        return sorted(one["name"] for one in said["entries"])

    def cat(self, box, name):
        answer = self.server.get(path_of(box, "files", name))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.body

    def test_uploads_tools_moves_and_removals_are_calls(self):
        box = self.create(checkpoint="each_call")
        self.assertIn(self.server.put(path_of(box, "files/up"), b"1").status, (200, 201, 204))
        self.result(box, "file_write", path="tool", content="2")
        self.told(self.server.post(path_of(box, "move"), {"from": "up", "to": "moved"}))
        self.assertIn(self.server.delete(path_of(box, "files/tool")).status, (200, 204))
        for want in (["moved", "tool"], ["tool", "up"], ["up"], []):
            self.undo(box)
            self.assertEqual(self.names(box), want)

    def test_with_a_process_it_is_busy_unless_it_is_ended(self):
        box = self.create(checkpoint="each_call")
        self.shell(box, "echo one >a")
        self.shell(box, "echo two >a")
        process = self.background(box)
        self.refused(self.server.post(path_of(box, "undo"), {"calls": 2}), 409, "Busy")
        self.assertEqual(self.cat(box, "a"), b"two\n")
        self.assertTrue(self.told(self.server.get(path_of(box, f"processes/{process}")))["running"])
        self.undo(box, calls=2, end_processes=True)
        self.assertEqual(self.cat(box, "a"), b"one\n")
        listed = self.told(self.server.get(path_of(box, "processes")))["processes"]
        self.assertEqual([one for one in listed if one["running"]], [])
        self.shell(box, "echo three >a; cat a")

    def test_back_to_a_snapshot(self):
        box = self.create(storage="disk")
        self.shell(box, "echo one >a")
        kept = self.snapshot(box, name="undo-to")["id"]
        self.shell(box, "echo two >a; echo b >b")
        self.snapshot(box)
        self.assertEqual(self.undo(box, snapshot="undo-to")["snapshot"], kept)
        self.assertEqual(self.names(box), ["a"])
        self.assertEqual(self.shell(box, "cat a; pwd"), "one\n/workspace\n")
        other = self.create(storage="disk")
        self.refused(self.server.post(path_of(other, "undo"), {"snapshot": kept}), 404, "NotFound")
        self.refused(self.server.post(path_of(other, "undo"), {"calls": 1}), 400, "InvalidArgument", "calls")

    def test_the_last_thirty_two_are_there(self):
        box = self.create(checkpoint="each_call")
        for number in range(40):
            self.shell(box, f"echo {number} >a")
        self.refused(self.server.post(path_of(box, "undo"), {"calls": 33}), 400, "InvalidArgument", "calls")
        self.assertEqual(self.undo(box, calls=32)["left"], 0)
        self.assertEqual(self.cat(box, "a"), b"7\n")


class Diffs(StoreCase):
    def two(self):
        """A snapshot, and the sandbox that went on from it."""
        box = self.create(storage="disk")
        self.shell(box, "mkdir d e; echo 1 >same; echo 1 >changed; echo 1 >gone; echo 1 >d/x; echo 1 >e/y; "
                        "echo 1 >mode; "
                        "ln -s same link; printf '\\0\\1\\2' >binary; echo 1 >turn; printf 'no end' >noend")
        kept = self.snapshot(box)["id"]
        self.shell(box, "echo 2 >changed; rm gone; rm -r d; chmod +x mode; ln -sfn changed link; echo n >new; "
                        "printf '\\3\\0' >binary; rm turn; mkdir turn; echo t >turn/t; echo 2 >'a name'; "
                        "echo u >ümlaut")
        return f"snapshot:{kept}", f"sandbox:{box}"

    def test_the_list(self):
        a, b = self.two()
        want = {"changed": "modified", "gone": "removed", "d": "removed", "d/x": "removed", "mode": "mode",
                "link": "modified", "new": "added", "binary": "modified", "turn": "type_changed", "turn/t": "added",
                "a name": "added", "ümlaut": "added"}
        found = {path.removeprefix("/workspace/"): kind for path, kind in self.diff(a, b, "/workspace").items()}
        found.pop("/workspace", None)
        # A folder that is gone may be told alone, or with what was in it.
        self.assertEqual({**found, "d/x": "removed"}, want)
        self.assertEqual(self.diff(a, a), {})
        self.assertEqual(self.diff(a, b, "/workspace/e"), {})

    def test_the_patch_is_for_git_apply(self):
        need(self, "git")
        a, b = self.two()
        answer = self.server.get(query("/api/v1/diff", **{"from": a, "to": b, "path": "/workspace", "format": "patch"}))
        self.assertEqual(answer.status, 200, answer.body)
        with tempfile.TemporaryDirectory() as folder:
            for name, state in (("old", a), ("new", b)):
                made = self.create(snapshot=state.partition(":")[2]) if name == "old" else b.partition(":")[2]
                archive = self.server.get(path_of(made, "archive/"))
                self.assertEqual(archive.status, 200)
                pathlib.Path(folder, f"{name}.tar").write_bytes(archive.body)
                root = pathlib.Path(folder, name, "workspace")
                root.mkdir(parents=True)
                outside("tar", "-xf", f"{folder}/{name}.tar", "-C", root, "--no-same-owner")
            pathlib.Path(folder, "patch").write_bytes(answer.body)
            outside("git", "apply", f"{folder}/patch", cwd=f"{folder}/old")
            outside("diff", "-r", "--no-dereference", f"{folder}/old", f"{folder}/new")
            self.assertTrue(pathlib.Path(folder, "old/workspace/mode").stat().st_mode & 0o100)
        same = self.server.get(query("/api/v1/diff", **{"from": a, "to": a, "format": "patch"}))
        self.assertEqual((same.status, same.body), (200, b""))

    def test_states_that_cannot_be_compared(self):
        box = self.create(storage="disk")
        for wrong in ("snapshot:none", "sandbox:" + "a" * 26, "image:none:1"):
            answer = self.server.get(query("/api/v1/diff", **{"from": f"sandbox:{box}", "to": wrong}))
            self.refused(answer, 404, "NotFound")
        answer = self.server.get(query("/api/v1/diff", **{"from": f"sandbox:{box}", "to": f"sandbox:{box}",
                                                         "path": "../x"}))
        self.assertIn(answer.status, (400, 403))


class Merges(StoreCase):
    def pair(self):
        box = self.create(storage="disk")
        self.shell(box, "for f in a b c d; do echo base >$f; done; mkdir folder; echo base >folder/x")
        return box, self.fork(box)["id"]

    def test_what_only_one_side_changed_is_taken(self):
        box, fork = self.pair()
        self.shell(box, "echo mine >a; echo same >c; echo m >mine")
        self.shell(fork, "echo theirs >b; echo same >c; rm d; rm -r folder; echo t >theirs; chmod +x theirs")
        done = self.told(self.server.post(path_of(box, "merge"), {"from": f"sandbox:{fork}"}))
        kinds = {one["path"].removeprefix("/workspace/"): one["kind"] for one in done["applied"]}
        self.assertEqual((kinds["b"], kinds["theirs"], kinds["d"]), ("modified", "added", "removed"))
        self.assertNotIn("a", kinds)
        self.assertEqual(self.shell(box, "cat a b c theirs mine; test -x theirs; ls"),
                         "mine\ntheirs\nsame\nt\nm\na\nb\nc\nmine\ntheirs\n")
        self.assertEqual(self.shell(fork, "cat a b"), "base\ntheirs\n")
        # A second time there is nothing left to do.
        again = self.told(self.server.post(path_of(box, "merge"), {"from": f"sandbox:{fork}"}))
        self.assertEqual(again["applied"], [])

    def test_a_conflict_applies_nothing(self):
        box, fork = self.pair()
        self.shell(box, "echo mine >a; rm b; echo mine >folder/x")
        self.shell(fork, "echo theirs >a; echo theirs >b; rm -r folder; echo theirs >c")
        answer = self.server.post(path_of(box, "merge"), {"from": f"sandbox:{fork}"})
        self.refused(answer, 409, "Conflict")
        details = answer.json["error"]["details"]
        conflicts = {path.removeprefix("/workspace/") for path in details["conflicts"]}
        self.assertLessEqual({"a", "b"}, conflicts)
        self.assertTrue(conflicts & {"folder", "folder/x"}, conflicts)
        self.assertNotIn("c", conflicts)
        self.assertEqual(details["conflicts_total"], len(details["conflicts"]))
        self.assertEqual(self.shell(box, "cat a c folder/x; ls"), "mine\nbase\nmine\na\nc\nd\nfolder\n")

    def test_with_a_process_it_is_busy_unless_it_is_ended(self):
        box, fork = self.pair()
        self.shell(fork, "echo theirs >b")
        self.background(box)
        self.refused(self.server.post(path_of(box, "merge"), {"from": f"sandbox:{fork}"}), 409, "Busy")
        self.assertEqual(self.shell(box, "cat b"), "base\n")
        self.told(self.server.post(path_of(box, "merge"), {"from": f"sandbox:{fork}", "end_processes": True}))
        self.assertEqual(self.shell(box, "cat b"), "theirs\n")

    def test_what_has_nothing_in_common(self):
        box, _ = self.pair()
        other = self.create(storage="disk")
        self.shell(other, "echo other >a")
        answer = self.server.post(path_of(box, "merge"), {"from": f"sandbox:{other}"})
        self.assertIn((answer.status, answer.json["error"]["code"]),
                      ((400, "InvalidArgument"), (409, "Conflict"), (501, "Unsupported")))
        self.assertEqual(self.shell(box, "cat a"), "base\n")


class Tenants(StoreCase):
    def test_another_tenant_finds_nothing(self):
        box = self.create(storage="disk", checkpoint="each_call")
        self.shell(box, "echo secret >a")
        kept = self.snapshot(box, name="mine")["id"]
        token = self.tenant("others")
        own = self.told(self.server.post("/api/v1/sandboxes", {"storage": "disk"}, token=token), 201)["id"]
        self.addCleanup(self.server.delete, path_of(own), token=token)
        for name in (kept, "mine"):
            self.refused(self.server.get(f"/api/v1/snapshots/{name}", token=token), 404, "NotFound")
            self.refused(self.server.delete(f"/api/v1/snapshots/{name}", token=token), 404, "NotFound")
            self.refused(self.server.post("/api/v1/sandboxes", {"snapshot": name}, token=token), 404, "NotFound")
            self.refused(self.server.post(path_of(own, "undo"), {"snapshot": name}, token=token), 404, "NotFound")
            path = query("/api/v1/diff", **{"from": f"snapshot:{name}", "to": f"sandbox:{own}"})
            self.refused(self.server.get(path, token=token), 404, "NotFound")
            self.refused(self.server.post(path_of(own, "merge"), {"from": f"snapshot:{name}"}, token=token), 404,
                         "NotFound")
            build = {"reference": "x:1", "snapshot": name}
            self.refused(self.server.post("/api/v1/images/build", build, token=token), 404, "NotFound")
        for call in ("snapshots", "fork", "undo", "stop", "start"):
            self.refused(self.server.post(path_of(box, call), {}, token=token), 404, "NotFound")
        self.refused(self.server.get(path_of(box, "snapshots"), token=token), 404, "NotFound")
        listed = self.told(self.server.get("/api/v1/snapshots", token=token))["snapshots"]
        self.assertEqual(listed, [])
        # The same name is free for them.
        self.told(self.server.post(path_of(own, "snapshots"), {"name": "mine"}, token=token), 201)
        self.assertEqual(self.told(self.server.get("/api/v1/snapshots/mine"))["id"], kept)


if __name__ == "__main__":
    harness.main()

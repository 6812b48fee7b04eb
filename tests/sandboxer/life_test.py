"""From a create to the end of a main process, and what is left of a sandbox when it is gone."""


from sandboxer_case import SandboxerCase
from harness import main, wait_for

LIST_KEYS = {"id", "name", "label", "parent_id", "status", "ip_address", "hostname", "child_ids", "deleted_at",
             "delete_reason", "url"}
DETAIL_KEYS = LIST_KEYS | {"is_public", "interactive", "image"}


class Life(SandboxerCase):
    pictures = {"busybox": "busybox", "hello-world": "hello-world", "redis": "redis",
                "jmalloc/echo-server": "echo-server"}

    # --- what must not work

    def test_a_mistake_of_the_caller_is_one_clean_sentence(self):
        for wish, status, text in (
                ({"image": "not here at all!"}, 400, 'Image "not here at all!" is not a valid reference.'),
                ({"image": "127.0.0.1:1/nothing/here"}, 404,
                 'Image "127.0.0.1:1/nothing/here" was not found, or needs a login.'),
                ({"image": " "}, 400, "Image cannot be empty."),
                ({"image": "busybox", "args": ["no-such-program"]}, 400,
                 'The program "no-such-program" was not found in the image.'),
                ({"image": "busybox", "hostname": "not_a_name!"}, 400, None),
                ({"image": "busybox", "label": "x" * 2000}, 400, "Label is too long: at most 1024 bytes.")):
            answer = self.ask("POST", "/sandboxes", {"label": "x"} | wish)
            self.detail(answer, status, text)
            self.assertLess(len(answer.body), 400)
        # Nothing of it is left.
        self.assertEqual([one for one in self.rows().values() if one["status"] == "running"], [])
        self.assertEqual(self.server.get("/api/v1/sandboxes").json["sandboxes"], [])

    def test_what_is_gone_is_not_found(self):
        box = self.make()
        self.assertEqual(self.good("DELETE", self.at(box)), {"message": f"Sandbox {box['id']} marked as deleted"})
        for method, path, body in (("DELETE", "", None), ("PATCH", "", {"label": "x"}), ("POST", "/fork", {"label": ""}),
                                   ("POST", "/execute", {"code": "id"}), ("PUT", "/pause", None),
                                   ("GET", "/files/", None), ("GET", "/proxy/", None)):
            self.detail(self.ask(method, self.at(box) + path, body), 404, "Sandbox not found")
        self.detail(self.ask("GET", "/sandboxes/" + "0" * 64), 404, "Sandbox not found")

    def test_a_label_cannot_be_blank(self):
        box = self.make()
        self.detail(self.ask("PATCH", self.at(box), {"label": "  "}), 400, "Label cannot be empty.")

    # --- create

    def test_a_new_one_has_an_id_a_name_a_label_and_a_hostname(self):
        box = self.make(label="first")
        self.assertRegex(box["id"], r"^[0-9a-f]{64}$")
        self.assertRegex(box["name"], r"^[a-z0-9]{26}$")
        self.assertEqual((box["label"], box["hostname"]), ("first", box["id"][:12]))
        self.assertEqual((box["image"], box["interactive"], box["parent_id"]), ("busybox", False, None))
        self.assertNotIn("client", box)
        self.assertNotIn("self", box)
        self.assertEqual(self.run_one(box, "hostname")[0], box["id"][:12])

    def test_its_hostname_label_environment_and_arguments_are_the_callers(self):
        box = self.make(label="", hostname="My-Host", env={"COLOUR": "blue green"},
                        args=["sh", "-c", "echo $COLOUR $PWD; exec sleep 100000"])
        self.assertEqual(box["label"], box["name"])
        self.assertEqual(self.run_one(box, "hostname; echo $COLOUR; pwd")[0], "my-host\nblue green\n/")
        wait_for(lambda: self.logs(box) == "blue green /", "its log")

    def test_an_empty_hostname_is_none(self):
        self.assertEqual(self.make(hostname="")["hostname"][:4], self.rows().popitem()[1]["hostname"][:4])

    def test_interactive_is_false_unless_said(self):
        self.assertFalse(self.show(self.make())["interactive"])

    def test_create_answers_when_the_exposed_port_is_open(self):
        for _ in range(3):
            box = self.make("redis", "root")
            self.assertEqual(self.run_one(box, "redis-cli incr counter"), ("1", "", 0))

    def test_the_limits_of_a_sandbox_are_those_of_the_original(self):
        box = self.make()
        view = self.server.get(f"/api/v1/sandboxes/{box['name']}").json
        limits = view["resource_limits"]
        self.assertEqual((limits["cpu"], limits["memory_mb"], limits["processes"]), (0.5, 512, 1024))

    # --- the list

    def test_living_and_terminated_ones_are_listed_alike(self):
        first, second = self.make(label="one"), self.make(label="two")
        self.good("DELETE", self.at(first))
        listed = self.good("GET", "/sandboxes")["sandboxes"]
        ids = [one["id"] for one in listed]
        self.assertLess(ids.index(first["id"]), ids.index(second["id"]))
        dead, alive = (next(one for one in listed if one["id"] == box["id"]) for box in (first, second))
        self.assertEqual(set(dead), LIST_KEYS)
        self.assertEqual((dead["status"], dead["delete_reason"]), ("terminated", "user_deleted"))
        self.assertIsInstance(dead["deleted_at"], float)
        self.assertEqual((dead["url"], dead["hostname"], dead["ip_address"], dead["parent_id"]), (None,) * 4)
        self.assertEqual((alive["status"], alive["deleted_at"], alive["delete_reason"]), ("running", None, None))
        self.assertTrue(alive["url"].endswith(f"/sandboxes/{second['name']}/proxy/"), alive["url"])
        # The same in detail, with more.
        for box, listed_one in ((first, dead), (second, alive)):
            shown = self.show(box)
            self.assertEqual(set(shown), DETAIL_KEYS)
            for key in LIST_KEYS - {"child_ids"}:
                self.assertEqual(shown[key], listed_one[key], key)

    def test_sandboxes_of_other_doors_are_not_listed(self):
        other = self.create()
        self.assertNotIn(other, {one["name"] for one in self.rows().values()})

    # --- changes

    def test_a_patch_says_what_it_changed(self):
        box = self.make()
        self.assertEqual(self.good("PATCH", self.at(box), {}), {"id": box["id"]})
        self.assertEqual(self.good("PATCH", self.at(box), {"label": "new"}), {"id": box["id"], "label": "new"})
        self.assertEqual(self.good("PATCH", self.at(box), {"public": "yes"}), {"id": box["id"], "public": True})
        shown = self.show(box)
        self.assertEqual((shown["label"], shown["is_public"]), ("new", True))

    def test_pausing_twice_is_pausing_once(self):
        box = self.make()
        for _ in range(2):
            self.assertEqual(self.good("PUT", self.at(box, "pause")), {"id": box["id"], "status": "paused"})
        self.assertEqual(self.show(box)["status"], "paused")
        self.assertEqual(self.rows()[box["id"]]["status"], "paused")
        done = self.execute(box, "echo hi")
        self.assertEqual((done["stdout"], done["exit_code"]), ("", 255))
        self.assertIn("paused", done["stderr"])
        for _ in range(2):
            self.assertEqual(self.good("DELETE", self.at(box, "pause")), {"id": box["id"], "status": "running"})
        self.assertEqual(self.run_one(box, "echo hi")[0], "hi")

    def test_a_paused_one_can_be_deleted(self):
        box = self.make()
        self.good("PUT", self.at(box, "pause"))
        self.good("DELETE", self.at(box))
        self.assertEqual(self.show(box)["status"], "terminated")

    # --- the end

    def test_the_end_of_the_main_process_is_the_end(self):
        box = self.make(args=["sh", "-c", "echo last words; exit 3"])
        shown = self.until_status(box, "terminated")
        self.assertEqual(shown["delete_reason"], "container_stopped")
        self.assertEqual(self.logs(box), "last words")
        wait_for(lambda: not self.server.get("/api/v1/sandboxes").json["sandboxes"], "the end of the sandbox")

    def test_hello_world_says_hello_after_its_end(self):
        box = self.make("hello-world", "greeting", interactive=False)
        self.until_status(box, "terminated")
        self.assertTrue(self.logs(box).startswith("Hello from Docker!\n"))
        answer = self.ask("GET", self.at(box, "logs?stream=true"))
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream; charset=utf-8")
        self.assertTrue(answer.body.startswith(b"\nHello from Docker!\n"))

    def test_what_another_door_ends_is_ended_here(self):
        box = self.make()
        self.assertIn(self.server.delete(f"/api/v1/sandboxes/{box['name']}").status, (200, 204))
        self.assertEqual(self.until_status(box, "terminated")["delete_reason"], "container_stopped")

    def test_all_of_a_long_log_is_there(self):
        box = self.make(args=["sh", "-c", "seq 1 20000; printf '\\342\\202\\254\\377end'"])
        self.until_status(box, "terminated")
        lines = self.logs(box).split("\n")
        self.assertEqual(lines[:-1], [str(i) for i in range(1, 20001)])
        self.assertEqual(lines[-1], "€�end")

    def test_of_a_very_long_log_the_end_is_kept(self):
        box = self.make(args=["sh", "-c", "seq 1 3000000; echo the end"])
        self.until_status(box, "terminated")
        text = self.logs(box)
        self.assertTrue(text.endswith("\n3000000\nthe end"))
        self.assertLess(len(text), 12 << 20)
        self.assertGreater(len(text), 4 << 20)

    def test_a_log_is_followed_to_its_end(self):
        box = self.make(args=["sh", "-c", "echo one; until test -e /go; do sleep 0.05; done; echo two; printf three"])
        wait_for(lambda: self.logs(box) == "one", "its first word")
        _, stream = self.open("GET", self.at(box, "logs?stream=true"))
        self.assertEqual(stream.readline(), b"one\n")
        self.run_one(box, "touch /go")
        self.assertEqual(stream.read(), b"two\nthree\n")

    def test_an_interactive_one_has_no_log(self):
        box = self.make(interactive=True)
        for path in ("logs", "logs?stream=true"):
            self.detail(self.ask("GET", self.at(box, path)), 400, "Cannot stream logs from interactive sandboxes")

    def test_noise_is_drained_for_ever(self):
        box = self.make(args=["sh", "-c", "yes a long line of noise | head -c 20000000; echo done; exec sleep 100000"])
        wait_for(lambda: self.logs(box).endswith("done"), "the end of the noise")


class Restart(SandboxerCase):
    pictures = {"busybox": "busybox"}

    def test_a_killed_server_is_followed_by_one_that_knows_all(self):
        counting = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"
        box = self.make(label="lives", args=["sh", "-c", counting], keep=True)
        shell = self.make(label="shell", interactive=True, keep=True)
        gone = self.make(label="goes", args=["sh", "-c", "echo bye; until test -e /go; do sleep 0.05; done"], keep=True)
        dead = self.make(label="dead", keep=True)
        self.good("DELETE", self.at(dead))
        self.execute(box, "echo remembered")
        self.good("PATCH", self.at(box), {"label": "renamed"})
        wait_for(lambda: len(self.logs(box).split()) > 3, "a few lines")
        self.server.kill()
        self.server.start()
        rows = self.rows()
        self.assertEqual({rows[one["id"]]["status"] for one in (box, shell, gone)}, {"running"})
        self.assertEqual(rows[box["id"]]["label"], "renamed")
        self.assertEqual((rows[dead["id"]]["status"], rows[dead["id"]]["delete_reason"]), ("terminated", "user_deleted"))
        self.assertEqual(self.good("GET", self.at(box, "execution-logs"))["executions"][0]["logs"][0]["content"],
                         "remembered")
        # The log goes on where it was: nothing twice, nothing missing.
        before = len(self.logs(box).split())
        wait_for(lambda: len(self.logs(box).split()) > before + 3, "more lines")
        numbers = [int(one) for one in self.logs(box).split()]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.run_one(gone, "touch /go")
        self.assertEqual(self.until_status(gone, "terminated")["delete_reason"], "container_stopped")
        self.assertEqual(self.logs(gone), "bye")
        # A clean stop ends what is not persistent; the rows stay.
        self.server.stop()
        self.server.start()
        rows = self.rows()
        self.assertEqual({rows[one["id"]]["status"] for one in (box, shell)}, {"terminated"})
        self.assertEqual({rows[one["id"]]["delete_reason"] for one in (box, shell)}, {"startup_sync"})
        self.assertEqual([int(one) for one in self.logs(box).split()][:4], [1, 2, 3, 4])


if __name__ == "__main__":
    main()

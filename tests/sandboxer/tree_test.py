"""Forks, their tree, and what becomes of it when one branch is kept."""

import threading

from sandboxer_case import IDLE, SandboxerCase
from harness import main


class Tree(SandboxerCase):
    # --- what must not work

    def test_a_fork_of_nothing_is_not_found(self):
        self.detail(self.ask("POST", "/sandboxes/" + "0" * 64 + "/fork", {"label": ""}), 404, "Sandbox not found")
        box = self.make()
        answer = self.ask("POST", self.at(box, "fork"), {})
        self.assertEqual((answer.status, answer.json["detail"][0]["loc"]), (422, ["body", "label"]))
        self.assertEqual(self.ask("POST", self.at(box, "fork"), {"label": "x", "hostname": "a_b"}).status, 400)
        self.assertEqual(len(self.rows()[box["id"]]["child_ids"]), 0)

    def test_only_a_branch_of_the_tree_can_be_kept(self):
        one, two = self.make(), self.make()
        self.detail(self.ask("POST", self.at(one, "coalesce", two["id"])), 400,
                    "Final sandbox is not a descendant of the parent sandbox")
        self.detail(self.ask("POST", self.at(one, "coalesce", "0" * 64)), 404, "Sandbox not found")
        self.detail(self.ask("POST", self.at("0" * 64, "coalesce", one["id"])), 404, "Sandbox not found")
        child = self.fork(one)
        self.detail(self.ask("POST", self.at(child, "coalesce", one["id"])), 400,
                    "Final sandbox is not a descendant of the parent sandbox")

    # --- forks

    def test_a_fork_has_the_files_and_its_own_life(self):
        box = self.make(label="root", env={"COLOUR": "blue"}, args=["sh", "-c", "echo $COLOUR; exec sleep 100000"])
        self.run_one(box, "echo before >/file; mkdir -p /d/e; echo x >/d/e/f; rm -r /usr/sbin; ln -s /file /abs; "
                          "ln /file /hard; touch -d @1000000000 /old; rm /etc/group; mkfifo /pipe")
        child = self.fork(box, "a child")
        self.assertEqual((child["label"], child["parent_id"], child["image"]), ("a child", box["id"], "busybox"))
        self.assertEqual((child["interactive"], child["memory"]), (False, False))
        self.assertEqual(child["hostname"], box["hostname"] + "-a-child")
        look = ("cat /file /d/e/f /abs; ls /usr/sbin /etc/group 2>&1 | wc -l; stat -c %h /hard; stat -c %Y /old; "
                "test -p /pipe && echo fifo; echo $COLOUR; hostname")
        self.assertEqual(self.run_one(child, look)[0],
                         f"before\nx\nbefore\n2\n2\n1000000000\nfifo\nblue\n{child['hostname']}")
        self.run_one(child, "echo child >/file")
        self.run_one(box, "echo parent >/file")
        self.assertEqual(self.run_one(child, "cat /file")[0], "child")
        self.assertEqual(self.run_one(box, "cat /file")[0], "parent")
        self.assertEqual(self.logs(child), "blue")

    def test_names_of_forks_follow_the_label(self):
        box = self.make(label="root", hostname="top")
        self.assertEqual(self.fork(box, "fk a!b")["hostname"], "top-fk-a-b")
        unnamed = self.fork(box, "")
        self.assertEqual((unnamed["label"], unnamed["hostname"]), ("Fork of root", "top-fork-of-root"))
        self.assertEqual(self.fork(box, "x", hostname="Chosen")["hostname"], "chosen")
        self.assertLessEqual(len(self.fork(box, "long " * 40)["hostname"]), 63)

    def test_a_paused_parent_is_forked_and_stays_paused(self):
        box = self.make()
        self.run_one(box, "echo kept >/file")
        self.good("PUT", self.at(box, "pause"))
        child = self.fork(box)
        self.assertEqual(self.run_one(child, "cat /file")[0], "kept")
        self.assertEqual(self.show(box)["status"], "paused")

    def test_a_fork_of_a_public_one_is_private(self):
        box = self.make()
        self.good("PATCH", self.at(box), {"public": True})
        child = self.fork(box)
        self.assertFalse(self.show(child)["is_public"])
        self.assertEqual(self.ask("GET", f"/sandboxes/{child['name']}/proxy/", token="").status, 401)

    def test_an_interactive_one_has_interactive_forks(self):
        box = self.make(interactive=True, args=["sh"])
        self.assertTrue(self.fork(box)["interactive"])

    def test_many_forks_at_once(self):
        box = self.make()
        made, lock = [], threading.Lock()

        def one(number):
            child = self.fork(box, f"child {number}")
            with lock:
                made.append(child["id"])

        threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({one["id"] for one in self.rows()[box["id"]]["child_ids"]}, set(made))
        self.assertEqual(len(made), 8)

    # --- the tree

    def test_a_tree_is_drawn_with_its_dead(self):
        root = self.make(label="root")
        left, right = self.fork(root, "left"), self.fork(root, "right")
        below = self.fork(left, "below")
        self.good("DELETE", self.at(left))
        answer = self.ask("GET", self.at(root, "tree"))
        self.assertEqual(answer.headers["Content-Type"], "application/json; charset=utf-8")
        self.assertEqual(answer.json["tree"],
                         f"📦 root [{root['id']}]\n"
                         f"    ├── 💀 DEAD 📦 left [{left['id']}]\n"
                         f"    │   └── 📦 below [{below['id']}]\n"
                         f"    └── 📦 right [{right['id']}]")
        node = answer.json["tree_json"]
        self.assertEqual(set(node), {"id", "label", "status", "children"})
        self.assertEqual([(one["id"], one["status"]) for one in node["children"]],
                         [(left["id"], "terminated"), (right["id"], "running")])
        self.assertEqual(node["children"][0]["children"][0]["id"], below["id"])
        # From any node on, also a dead one.
        self.assertEqual(self.good("GET", self.at(left, "tree"))["tree_json"]["status"], "terminated")

    def test_children_are_objects_in_the_list_and_texts_in_detail(self):
        root = self.make()
        child = self.fork(root)
        self.assertEqual(self.rows()[root["id"]]["child_ids"], [{"id": child["id"]}])
        self.assertEqual(self.show(root)["child_ids"], [child["id"]])
        self.assertEqual((self.rows()[root["id"]]["parent_id"], self.rows()[child["id"]]["parent_id"]),
                         (None, root["id"]))

    def test_one_branch_is_kept_and_the_rest_goes(self):
        above = self.make(label="above")
        root = self.fork(above, "root")
        left, right = self.fork(root, "left"), self.fork(root, "right")
        kept, leaf = self.fork(left, "kept"), None
        leaf = self.fork(kept, "leaf")
        self.run_one(kept, "echo work >/result")
        answer = self.good("POST", self.at(root, "coalesce", kept["id"]))
        self.assertEqual(answer["message"], f"Sandbox {kept['id']} is now the new root")
        self.assertEqual((answer["id"], answer["label"], answer["image"], answer["interactive"]),
                         (kept["id"], "kept", "busybox", False))
        rows = self.rows()
        for gone in (root, left, right, leaf):
            self.assertEqual((rows[gone["id"]]["status"], rows[gone["id"]]["delete_reason"]), ("terminated", "coalesced"))
        self.assertEqual((rows[kept["id"]]["status"], rows[kept["id"]]["parent_id"]), ("running", None))
        self.assertEqual(rows[above["id"]]["status"], "running")
        self.assertEqual(self.run_one(kept, "cat /result")[0], "work")
        again = self.good("POST", self.at(kept, "coalesce", kept["id"]))
        self.assertEqual(again["message"], "Nothing to coalesce, target is already the root")
        self.assertEqual(again["id"], kept["id"])

    def test_the_top_can_be_kept_without_its_branches(self):
        root = self.make()
        child = self.fork(root)
        self.good("POST", self.at(root, "coalesce", root["id"]))
        self.assertEqual((self.show(root)["status"], self.show(child)["delete_reason"]), ("running", "coalesced"))

    def test_a_deleted_parent_stays_the_parent(self):
        root = self.make(args=IDLE)
        child = self.fork(root)
        self.good("DELETE", self.at(root))
        self.assertEqual(self.show(child)["parent_id"], root["id"])
        self.assertEqual(self.run_one(child, "echo alive")[0], "alive")


if __name__ == "__main__":
    main()

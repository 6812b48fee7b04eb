"""What a tenant can make grow has an end."""

import threading

from sandboxer_case import Sdk, SandboxerCase
from harness import main


class Limits(SandboxerCase):
    config = "sandboxer:\n  listings_max: 4\n"

    def test_the_oldest_dead_rows_make_room_and_living_ones_do_not(self):
        first = self.make(label="first")
        self.execute(first, "echo gone with it")
        child = self.fork(first, "child")
        self.good("DELETE", self.at(first))
        others = [self.make(label=f"{i}") for i in range(2)]
        self.good("DELETE", self.at(others[0]))
        # Four rows: a dead one with a living child, its child, a dead one and a living one.
        last = self.make(label="last")
        self.assertEqual(set(self.rows()), {first["id"], child["id"], others[1]["id"], last["id"]})
        self.detail(self.ask("GET", self.at(others[0])), 404, "Sandbox not found")
        # Nothing that is needed goes.
        answer = self.ask("POST", "/sandboxes", {"image": "busybox", "label": "x"})
        self.detail(answer, 429)
        self.assertEqual(self.ask("POST", self.at(child, "fork"), {"label": "x"}).status, 429)
        # The child's end frees its parent, too; a child whose parent was forgotten has none.
        self.good("DELETE", self.at(last))
        fresh = self.make(label="fresh")
        self.assertEqual(set(self.rows()), {first["id"], child["id"], others[1]["id"], fresh["id"]})
        self.good("DELETE", self.at(child))
        self.make(label="more")
        self.assertNotIn(first["id"], self.rows())
        self.assertIsNone(self.show(child)["parent_id"])

    def test_many_calls_at_once_are_all_answered(self):
        seen, lock = [], threading.Lock()

        def ask():
            answer = Sdk(self.server.port, self.server.token).send("GET", "/sandboxes")
            with lock:
                seen.append(answer.status)

        threads = [threading.Thread(target=ask) for _ in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(seen, [200] * 32)


if __name__ == "__main__":
    main()

"""P44: a snapshot or fork is a new sandbox, not a twin. It has its own names and tokens, never more rights than the
first, and is refused where somebody changed its record; whose it is not does not find it."""

import base64
import json
import pathlib
import re
import sqlite3
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import harness  # noqa: E402
from harness import path_of, wait_for  # noqa: E402
from store_case import StoreCase, StoreServer  # noqa: E402
from way_out import allowlist, rule  # noqa: E402

FORKS = 8


class Twins(StoreCase):
    def tell(self, box):
        """What could be the same in two of them."""
        said = self.shell(box, "head -c 16 /dev/urandom | base64; cat /proc/sys/kernel/random/uuid; hostname")
        return said.split("\n")

    def test_names_and_random_bytes_differ(self):
        box = self.create(storage="disk")
        forks = [box, *(self.fork(box)["id"] for _ in range(FORKS))]
        kept = self.snapshot(box)["id"]
        made = forks + [self.create(snapshot=kept) for _ in range(FORKS)]
        self.assertEqual(len(set(made)), len(made))
        told = [self.tell(one) for one in made]
        for what in range(2):
            self.assertEqual(len({lines[what] for lines in told}), len(made), told)
        self.assertEqual(len({lines[2] for lines in told[: len(forks)]}), len(forks), told)
        named = self.create(storage="disk", hostname="desk")
        self.assertNotEqual(self.tell(self.fork(named)["id"])[2], "desk")
        self.assertEqual(self.tell(self.fork(named, hostname="other")["id"])[2], "other")

    def test_proxy_tokens_differ_and_are_of_their_own(self):
        box = self.create(storage="disk", network=allowlist(rule("good.test"), token=True))
        made = [box, *(self.fork(box)["id"] for _ in range(3))]
        tokens = {}
        for one in made:
            found = re.search(r"jwt_([\w.-]+)@", self.shell(one, "echo $HTTP_PROXY"))
            self.assertIsNotNone(found, "no token inside")
            tokens[one] = found[1]
            middle = found[1].split(".")[1]
            claims = base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)).decode()
            self.assertIn(one, claims)
        self.assertEqual(len(set(tokens.values())), len(made))
        # No token of the first lies in the files that all of them have.
        kept = self.snapshot(box)["id"]
        again = self.create(snapshot=kept)
        answer = self.server.get(path_of(again, "archive/"))
        self.assertNotIn(tokens[box].encode(), answer.body)
        self.assertNotIn("HTTP_PROXY=http", self.shell(again, "env"), "a network that nobody asked for")

    def test_a_fork_has_no_more_than_its_parent(self):
        box = self.create(storage="disk", tools=["file_read"], user=1234,
                          resource_limits={"memory_mb": 64, "processes": 20, "disk_mb": 32, "timeout_seconds": 300,
                                           "cpu_seconds": 50})
        first = self.told(self.server.get(path_of(box)))
        fork = self.fork(box)
        for same in ("tools", "user", "workdir", "filesystem", "image", "tier", "network"):
            self.assertEqual(fork[same], first[same], same)
        for name, most in first["resource_limits"].items():
            if most is not None:
                self.assertIsNotNone(fork["resource_limits"][name], name)
                self.assertLessEqual(fork["resource_limits"][name], most, name)
        self.assertLessEqual(fork["expires_at"], first["expires_at"][:19] + "z")
        self.refused(self.tool(fork["id"], "shell_exec", command="id"), 403, "Denied")
        for more in ({"resource_limits": {"memory_mb": 1024}}, {"user": 0}, {"tools": ["shell_exec"]},
                     {"network": {"mode": "allowlist"}}):
            self.refused(self.server.post(path_of(box, "fork"), more), 400, "InvalidArgument")

    def test_a_budget_cannot_be_multiplied(self):
        box = self.create(storage="disk", budget={"max_tokens": 100, "on_exceed": "stop"})
        one, two = self.fork(box)["id"], self.fork(box)["id"]
        self.told(self.server.post(path_of(one, "usage/record"), {"tokens": 60}))
        self.assertEqual(self.told(self.server.get(path_of(two)))["state"], "running")
        self.server.post(path_of(two, "usage/record"), {"tokens": 60})
        wait_for(lambda: self.server.get(path_of(two)).status != 200, "the end of what was spent twice")

    def test_a_create_from_a_snapshot_has_what_it_asks_for_alone(self):
        """The snapshot's files, and none of the rights of the sandbox it came from."""
        box = self.create(storage="disk", network=allowlist(rule("good.test")), env={"SECRET": "s3cret"},
                          resource_limits={"memory_mb": 64})
        kept = self.snapshot(box)["id"]
        again = self.told(self.server.get(path_of(self.create(snapshot=kept))))
        self.assertEqual(again["network"]["mode"], "none")
        self.assertEqual(self.shell(again["id"], "echo $SECRET"), "\n")

    def test_memory_and_processes_stay_behind(self):
        box = self.create(storage="disk")
        self.background(box, "echo up; SECRET=in-memory exec sleep 1000")
        fork = self.fork(box)["id"]
        self.assertNotIn("sleep", self.shell(fork, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | sed 's/cat.*//'"))


class Records(StoreCase):
    """Somebody with the server's files, and without its key."""

    def setUp(self):
        self.server = StoreServer()
        self.addCleanup(self.server.close)
        self.server.start()

    @classmethod
    def setUpClass(cls):
        pass

    def change(self, statement, *values):
        self.server.stop()
        with sqlite3.connect(self.server.state / "server/caisson.db") as database:
            done = database.execute(statement, values)
            self.assertGreater(done.rowcount, 0)
        database.close()
        self.server.start()

    def rows(self):
        with sqlite3.connect(self.server.state / "server/caisson.db") as database:
            found = database.execute("SELECT tenant, id, spec FROM snapshots").fetchall()
        database.close()
        return found

    def is_refused(self, id_, token=None):
        answer = self.server.post("/api/v1/sandboxes", {"snapshot": id_}, token=token)
        self.assertIn(answer.status, (403, 404, 409, 410), answer.body)

    def test_a_changed_record_is_not_used(self):
        box = self.server.create(storage="disk")
        self.shell(box, "echo one >a")
        kept = [self.snapshot(box, name=f"s{number}")["id"] for number in range(3)]
        spec = {id_: text for _, id_, text in self.rows()}
        changed = spec[kept[0]].replace(kept[0], kept[1]) if kept[0] in spec[kept[0]] else None
        letter = spec[kept[0]].index("stacked") if "stacked" in spec[kept[0]] else len(spec[kept[0]]) // 2
        changed = changed or spec[kept[0]][:letter] + "X" + spec[kept[0]][letter + 1 :]
        self.change("UPDATE snapshots SET spec = ? WHERE id = ?", changed, kept[0])
        self.is_refused(kept[0])
        # The others are as they were.
        self.assertEqual(self.shell(self.server.create(snapshot=kept[2]), "cat a"), "one\n")

    def test_a_record_of_another_is_not_ones_own(self):
        box = self.server.create(storage="disk")
        self.shell(box, "echo one >a")
        one, two = self.snapshot(box)["id"], self.snapshot(box)["id"]
        specs = {id_: text for _, id_, text in self.rows()}
        self.change("UPDATE snapshots SET spec = ? WHERE id = ?", specs[one], two)
        self.is_refused(two)

    def test_a_record_that_moved_to_another_tenant(self):
        token = self.tenant("others")
        box = self.server.create(storage="disk")
        kept = self.snapshot(box)["id"]
        self.is_refused(kept, token)
        self.change("UPDATE snapshots SET tenant = 'others' WHERE id = ?", kept)
        self.is_refused(kept, token)
        listed = self.told(self.server.get("/api/v1/snapshots", token=token))["snapshots"]
        self.assertEqual(json.dumps(listed), "[]")


if __name__ == "__main__":
    harness.main()

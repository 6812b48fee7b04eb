"""The reader of an old database: what it tells, and that a hostile file ends in one sentence."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from harness import BIN, PATIENCE, main, read_proc, wait_for  # noqa: E402
from old_server import SCHEMA, OldServer  # noqa: E402

PROGRAM = os.environ.get("CAISSON_SERVER_PROGRAM", str(BIN / "caissond"))
TOKEN = "aB3_-9zyxwvutsrqponmlkjihgfedcbaABCDEFGHIJk"


class Reader(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o755)
        self.path = self.folder / "old.sqlite"

    def read(self, path=None):
        return subprocess.run([PROGRAM, "read-sandboxer", str(path or self.path)], capture_output=True, text=True,
                              timeout=PATIENCE * 4, check=False)

    def lines(self):
        done = self.read()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def kinds(self, kind):
        return [line for line in self.lines() if line["kind"] == kind]

    def refused(self, *words, path=None):
        """One sentence on standard error that has these words, and no line of an end."""
        done = self.read(path)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertLess(len(done.stderr), 500)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn('"kind":"end"', done.stdout)
        return done.stderr

    # --- what must not work

    def test_what_is_no_database(self):
        self.path.write_bytes(b"")
        self.refused("users", "no database of sandboxer")
        self.path.write_bytes(b"hello, I am a text\n" * 1000)
        self.refused("not a database")
        self.refused("No such file", path=self.folder / "none")
        self.refused("no regular file", path=self.folder)
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.refused("no regular file", path=fifo)
        self.refused("no regular file", path="/dev/zero")

    def test_a_truncated_file(self):
        with OldServer(self.path) as old:
            user = old.user("ada")
            box = old.sandbox(user)
            for _ in range(200):
                old.run(box, "x" * 500, logs=[(1, "y" * 500)])
        whole = self.path.read_bytes()
        for size in (100, 4096, len(whole) // 2, len(whole) - 4096):
            self.path.write_bytes(whole[:size])
            self.assertNotEqual(self.read().returncode, 0, size)
            self.refused()

    def test_a_file_with_noise_in_it_never_hangs_or_crashes(self):
        with OldServer(self.path) as old:
            user = old.user("ada")
            old.token(user, TOKEN)
            box = old.sandbox(user)
            for _ in range(20):
                old.run(box, "x" * 50, logs=[(1, "y" * 50)])
        whole = self.path.read_bytes()
        for at in range(100, len(whole), len(whole) // 60):
            damaged = bytearray(whole)
            damaged[at:at + 16] = bytes(range(200, 216))
            self.path.write_bytes(damaged)
            done = self.read()
            self.assertIn(done.returncode, (0, 1), (at, done.stderr))
            self.assertLessEqual(done.stderr.count("\n"), 1)

    def test_views_instead_of_tables(self):
        schema = SCHEMA.replace("CREATE TABLE users (", "CREATE TABLE real_users (").replace("users(id)", "real_users(id)")
        db = sqlite3.connect(self.path)
        db.executescript(schema + "CREATE VIEW users AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) "
                         "SELECT x AS id, x AS email, x AS name, x AS login, x AS avatar_url, x AS created_at FROM c;")
        db.close()
        self.refused("users", "view")

    def test_a_virtual_table(self):
        schema = SCHEMA.replace("CREATE TABLE networks (name TEXT PRIMARY KEY, user_id TEXT REFERENCES users(id), "
                                "created_at INTEGER)", "CREATE VIRTUAL TABLE networks USING fts5(name, user_id)")
        db = sqlite3.connect(self.path)
        db.executescript(schema)
        db.close()
        self.refused("networks", "virtual")

    def test_a_missing_table_and_a_missing_column(self):
        db = sqlite3.connect(self.path)
        db.executescript(SCHEMA + "DROP TABLE command_execution_logs")
        db.close()
        self.refused("command_execution_logs", "missing")
        self.path.unlink()
        db = sqlite3.connect(self.path)
        db.executescript(SCHEMA.replace("avatar_url TEXT,", ""))
        db.close()
        self.refused("users", "avatar_url")

    def test_triggers_do_not_run(self):
        with OldServer(self.path) as old:
            old.user("ada")
            old.db.execute("CREATE TRIGGER t AFTER INSERT ON users BEGIN DELETE FROM users; END")
        before = self.path.read_bytes()
        self.assertEqual(len(self.kinds("user")), 1)
        self.assertEqual(self.path.read_bytes(), before)
        self.assertEqual([one.name for one in self.folder.iterdir()], ["old.sqlite"])

    def test_wrong_types(self):
        wrong = {
            "users": ("id", b"\x00\x01"), "networks": ("name", 7.5), "static_auth_tokens": ("token", b"blob"),
            "sandboxes": ("last_active_at", "yesterday"), "command_executions": ("exit_code", "none"),
            "command_execution_logs": ("content", b"\xff\xfe"),
        }
        for table, (column, value) in wrong.items():
            with self.subTest(table=table):
                self.path.unlink(missing_ok=True)
                with OldServer(self.path) as old:
                    user = old.user("ada")
                    old.token(user, TOKEN)
                    old.run(old.sandbox(user), "true", logs=[(1, "x")])
                    # As sandboxer's own tables would convert it back, the column is made anew without a type.
                    old.db.execute("PRAGMA writable_schema = ON")
                    old.db.execute("UPDATE sqlite_master SET sql = replace(replace(sql, ?, ?), ?, ?) WHERE name = ?",
                                   (f"{column} TEXT", column, f"{column} INTEGER", column, table))
                    old.db.commit()
                    old.db.close()
                    old.db = sqlite3.connect(self.path)
                    old.db.execute(f"UPDATE {table} SET {column} = ?", (value,))
                self.refused(table, column)

    def test_ids_that_are_something_else(self):
        for bad in ("", "a b", "x" * 300, "a\x1b[1m", "\u00e9"):
            with self.subTest(bad=bad[:10]):
                self.path.unlink(missing_ok=True)
                with OldServer(self.path) as old:
                    old.insert("users", {"id": bad, "email": "x"})
                self.refused("users", "id")

    def test_sandboxes_that_are_something_else(self):
        for column, bad in (("id", "A" * 64), ("id", "a" * 63), ("name", "a.b"), ("name", "x" * 64)):
            with self.subTest(column=column, bad=bad):
                self.path.unlink(missing_ok=True)
                with OldServer(self.path) as old:
                    old.sandbox(old.user("ada"), **{column: bad})
                self.refused("sandboxes", column)

    def test_infinity_is_no_time(self):
        with OldServer(self.path) as old:
            old.sandbox(old.user("ada"), deleted_at=float("inf"))
        self.refused("sandboxes", "deleted_at")

    def test_a_huge_value(self):
        with OldServer(self.path) as old:
            old.user("ada")
            old.db.execute("UPDATE users SET name = printf('%.*c', 70000000, 'x')")
        self.refused("users", "too big")

    def test_too_many_rows(self):
        with OldServer(self.path) as old:
            old.db.execute("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 10001) "
                           "INSERT INTO users (id, email) SELECT x, x FROM c")
        self.refused("users", "10000")

    def test_a_log_that_is_not_yet_in_the_file(self):
        with OldServer(self.path) as old:
            old.user("ada")
        (self.folder / "old.sqlite-wal").write_bytes(b"x")
        self.refused("-wal", "stop it")

    # --- what it tells

    def test_everything_has_its_owner(self):
        with OldServer(self.path) as old:
            ada, bob = old.user("ada"), old.user("bob", "12345")
            old.token(ada, TOKEN, "Initial admin token")
            old.token(bob, "short")
            one = old.sandbox(bob, label="a\x1b[1mb", parent_id="p", is_public=True)
            two = old.sandbox(ada, deleted_at=1_740_000_009.5, delete_reason="user_deleted")
            old.sandbox("nobody")
            old.run(one, "echo a; echo b >&2", 3, [(1, "a\n"), (2, "b\n")])
            old.run(two, "true")
            old.run("no-such-box", "true", logs=[(1, "x")])
        lines = self.lines()
        self.assertEqual([line["kind"] for line in lines],
                         ["user"] * 2 + ["network"] * 2 + ["token"] * 2 + ["sandbox"] * 3 + ["execution"] * 2 + ["end"])
        users = {line["name"]: line for line in lines if line["kind"] == "user"}
        self.assertEqual(users["Ada"]["tenant"], ada)
        self.assertEqual(users["Bob"]["tenant"], "12345")
        self.assertEqual(users["Ada"]["email"], "ada@example.org")
        self.assertNotIn("gho_secret", json.dumps(lines))
        tokens = [line for line in lines if line["kind"] == "token"]
        self.assertEqual((tokens[0]["tenant"], tokens[0]["token"]), (ada, TOKEN))
        self.assertRegex(tokens[0]["token_id"], "^[a-z2-7]{12}$")
        self.assertEqual((tokens[1]["tenant"], tokens[1]["token"], tokens[1]["token_id"]), ("12345", "", ""))
        boxes = [line for line in lines if line["kind"] == "sandbox"]
        self.assertEqual([box["tenant"] for box in boxes], ["", ada, "12345"])
        self.assertEqual((boxes[2]["id"], boxes[2]["label"], boxes[2]["parent_id"], boxes[2]["is_public"]),
                         (one, "a [1mb", "p", True))
        self.assertEqual((boxes[1]["deleted_at"], boxes[1]["delete_reason"]), (1_740_000_009.5, "user_deleted"))
        runs = [line for line in lines if line["kind"] == "execution"]
        self.assertEqual([(run["tenant"], run["sandbox_id"]) for run in runs], [(ada, two), ("12345", one)])
        self.assertEqual((runs[1]["command"], runs[1]["exit_code"]), ("echo a; echo b >&2", 3))
        self.assertEqual([(log["fd"], log["content"]) for log in runs[1]["logs"]], [(1, "a\n"), (2, "b\n")])
        self.assertEqual((lines[-1]["executions_left_out"], lines[-1]["logs_left_out"]), (1, 1))

    def test_an_id_that_is_no_tenant_is_made_one(self):
        with OldServer(self.path) as old:
            for user in ("Ada.L", "ada.l", "ada@l", "x" * 100, "a/../b"):
                old.user(f"u{old.next()}", user)
        tenants = [line["tenant"] for line in self.kinds("user")]
        self.assertEqual(tenants[1], "ada.l")
        self.assertRegex(tenants[0], r"^ada\.l-[a-z2-7]{8}$")
        self.assertRegex(tenants[2], r"^ada-l-[a-z2-7]{8}$")
        self.assertRegex(tenants[3], r"^x{55}-[a-z2-7]{8}$")
        self.assertRegex(tenants[4], r"^a-\.\.-b-[a-z2-7]{8}$")
        self.assertEqual(len(set(tenants)), 5)

    def test_only_the_newest_sandboxes_of_one_user(self):
        with OldServer(self.path) as old:
            ada, bob = old.user("ada"), old.user("bob")
            first = old.sandbox(ada)
            for _ in range(5000):
                last = old.sandbox(ada)
            small = old.sandbox(bob)
            old.run(first, "true")
        lines = self.lines()
        boxes = [line["id"] for line in lines if line["kind"] == "sandbox"]
        self.assertEqual(len(boxes), 5001)
        self.assertNotIn(first, boxes)
        self.assertTrue({last, small} <= set(boxes))
        self.assertEqual((lines[-1]["sandboxes_left_out"], lines[-1]["executions_left_out"]), (1, 1))

    def test_only_the_newest_of_what_is_too_much(self):
        with OldServer(self.path) as old:
            box = old.sandbox(old.user("ada"))
            for number in range(1005):
                old.run(box, f"echo {number}")
            old.run(box, "\x01" * 200_000, logs=[(1, "\x02" * 300_000), (1, "e\u0301" * 50_000), (2, "last")])
            old.run(box, "many", logs=[(1, str(number)) for number in range(5000)])
        lines = self.lines()
        runs = [line for line in lines if line["kind"] == "execution"]
        self.assertEqual(len(runs), 1000)
        self.assertEqual(runs[0]["command"], "echo 7")
        self.assertEqual(lines[-1]["executions_left_out"], 7)
        self.assertEqual(len(runs[-2]["command"]), 65536)
        self.assertEqual(runs[-2]["logs"][-1]["content"], "last")
        self.assertIn("e\u0301" * 10, runs[-2]["logs"][-2]["content"])
        self.assertEqual(len(runs[-1]["logs"]), 4096)
        self.assertEqual(runs[-1]["logs"][-1]["content"], "4999")
        for run in runs:
            self.assertLess(len(json.dumps(run, ensure_ascii=False).encode()), 1_000_000)

    def test_root_is_not_root_when_it_reads(self):
        with OldServer(self.path) as old:
            for number in range(3000):
                old.user(f"user{number}")
        self.path.chmod(0o600)
        with subprocess.Popen([PROGRAM, "read-sandboxer", str(self.path)], stdout=subprocess.PIPE) as reader:
            # Nobody reads, so it waits in the middle of its lines.
            ids = lambda: re.search(r"^Uid:(.*)$", read_proc(reader.pid, "status").decode(), re.MULTILINE)[1].split()
            wait_for(lambda: ids() == ["65534"] * 4, "a reader without privileges")
            status = read_proc(reader.pid, "status").decode()
            self.assertEqual(set(re.findall(r"^Cap(?:Inh|Prm|Eff|Bnd|Amb):\s*(\w+)$", status, re.MULTILINE)), {"0" * 16})
            self.assertIn(b'"kind":"end"', reader.stdout.read())
        self.assertEqual(reader.returncode, 0)


if __name__ == "__main__":
    main()

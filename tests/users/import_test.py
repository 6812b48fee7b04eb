"""An old installation, brought here: its users log in as before, and see what they had."""

from users_case import UsersCase  # isort: skip
from harness import main  # isort: skip
from old_server import OldServer  # isort: skip

ADA = "aB3_-9zyxwvutsrqponmlkjihgfedcbaABCDEFGHIJk"
BOB = "Zz3_-9zyxwvutsrqponmlkjihgfedcbaABCDEFGHIJk"


class Import(UsersCase):
    def old(self, name="old.sqlite"):
        return OldServer(self.folder / name)

    def door(self, path, token):
        return self.server.get(path, token=token)

    def test_a_bad_file_is_one_sentence(self):
        (self.folder / "text").write_text("no database", encoding="utf-8")
        self.assertIn("not a database", self.refused("import", str(self.folder / "text")))
        self.assertIn("none", self.refused("import", str(self.folder / "none")))

    def test_only_an_admin(self):
        with self.old() as old:
            old.user("eve", "eve")
        token = self.user("add", "weak", "--new-token").strip()
        self.assertIn("admin", self.refused("import", str(self.folder / "old.sqlite"), token=token))

    def test_a_strangers_tenant_is_not_given_away(self):
        with self.old() as old:
            old.token(old.user("mallory", "default"), BOB)
        done = self.run_command("import", str(self.folder / "old.sqlite"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("conflict", done.stdout)
        self.assertIn("nothing was imported", done.stderr)
        self.assertFalse(self.works(BOB))

    def test_everything_comes_once(self):
        with self.old() as old:
            ada = old.user("ada")
            old.token(ada, ADA)
            old.token(ada, "short", "too short")
            first = old.sandbox(ada, label="web")
            child = old.sandbox(ada, label="child", parent_id=first, deleted_at=1_740_000_100.5,
                                delete_reason="user_deleted")
            run = old.run(first, "echo hi; echo no >&2", 3, [(1, "hi\n"), (2, "no\n")])
        path = str(self.folder / "old.sqlite")
        self.assertFalse(self.works(ADA))

        dry = self.user("import", path, "--dry-run")
        self.assertIn("1 to make", dry)
        self.assertIn("too short", dry)
        self.assertFalse(self.works(ADA))
        self.assertNotIn("Ada", self.user("list"))

        done = self.user("import", path)
        self.assertIn("imported: 1 user, 1 token, 2 sandboxes, 1 execution", done)
        self.assertNotIn(ADA, dry + done)
        self.assertIn("Ada", self.user("show", ada))

        # The old token is good as it is, for its tenant, and for nothing more.
        self.assertTrue(self.works(ADA))
        self.assertEqual(self.server.get("/api/v1/users", token=ADA).status, 403)
        self.assertEqual(self.door("/auth/me", ADA).json["email"], "ada@example.org")
        listed = {box["id"]: box for box in self.door("/sandboxes", ADA).json["sandboxes"]}
        self.assertEqual(set(listed), {first, child})
        self.assertEqual({box["status"] for box in listed.values()}, {"terminated"})
        self.assertEqual(listed[first]["delete_reason"], "imported")
        self.assertEqual(listed[child]["delete_reason"], "user_deleted")
        self.assertEqual(listed[child]["parent_id"], first)
        logs = self.door(f"/sandboxes/{first}/execution-logs", ADA)
        self.assertEqual(logs.status, 200, logs.body)
        self.assertIn("hi", logs.body.decode())
        self.assertIn(run, self.door(f"/sandboxes/{first}/command-executions", ADA).body.decode())

        self.user("rename", ada, "--name", "Ada King")
        again = self.user("import", path)
        self.assertIn("nothing has changed", again)
        self.assertIn("Ada King", self.user("show", ada))
        self.assertEqual(len(self.door("/sandboxes", ADA).json["sandboxes"]), 2)

        # A token that was withdrawn here is not brought back.
        tokens = self.server.get("/api/v1/tokens").json["tokens"]
        token = next(one["id"] for one in tokens if one["tenant"] == ada)
        self.assertEqual(self.server.delete(f"/api/v1/tokens/{token}").status, 204)
        self.assertIn("nothing has changed", self.user("import", path))
        self.assertFalse(self.works(ADA))

    def test_many_go_in_batches(self):
        with self.old() as old:
            bob = old.user("bob", "12345")
            old.token(bob, BOB)
            boxes = [old.sandbox(bob) for _ in range(700)]
            for box in boxes[:3]:
                for _ in range(5):
                    old.run(box, "x" * 60_000, logs=[(1, "\x01y" * 60_000)])
        done = self.user("import", str(self.folder / "old.sqlite"))
        self.assertIn("700 sandboxes, 15 executions", done)
        self.assertIn("nothing has changed", self.user("import", str(self.folder / "old.sqlite")))


if __name__ == "__main__":
    main()

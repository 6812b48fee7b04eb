"""caisson user against a live server."""

import json

from users_case import UsersCase  # isort: skip
from harness import main  # isort: skip


class Users(UsersCase):
    def test_only_an_admin(self):
        token = self.user("add", "plain", "--new-token").strip()
        self.assertTrue(self.works(token))
        for words in (("list",), ("add", "other"), ("rename", "plain", "--name", "x"), ("remove", "default")):
            self.assertIn("admin", self.refused(*words, token=token))
        self.assertTrue(self.works(self.server.token))

    def test_add_show_rename_remove(self):
        token = self.user("add", "ada", "--name", "Ada L", "--email", "ada@example.org", "--new-token").strip()
        self.assertRegex(token, r"^cais_[a-z2-7]{12}_[a-z2-7]{52}$")
        self.assertTrue(self.works(token))
        self.assertIn("Ada L", self.user("list"))
        shown = json.loads(self.user("show", "ada", "--json"))
        self.assertEqual((shown["tenant"], shown["name"], shown["email"], shown["tokens"], shown["sandboxes"]),
                         ("ada", "Ada L", "ada@example.org", 1, 0))
        self.assertIn("already", self.refused("add", "ada"))
        self.user("rename", "ada", "--name", "Ada King")
        again = json.loads(self.user("show", "ada", "--json"))
        self.assertEqual((again["name"], again["email"], again["created_at"]),
                         ("Ada King", "ada@example.org", shown["created_at"]))
        self.user("remove", "ada")
        self.assertFalse(self.works(token))
        self.assertIn("ada", self.refused("remove", "ada"))
        wanted = [("user.put", "ada", "allowed")] * 2 + [("user.remove", "ada", "allowed")]
        self.assertEqual([row for row in self.actions("user.") if row[1] == "ada"], wanted)

    def test_bad_words(self):
        self.assertIn("tenant", self.refused("add", "No Tenant"))
        self.assertIn("avatar_url", self.refused("add", "bob", "--avatar-url", "http://example.org/x"))
        self.assertIn("--name", self.refused("rename", "bob", status=2))
        self.assertIn("bob", self.refused("show", "bob"))
        self.assertIn("your own", self.refused("remove", "default"))
        self.assertNotEqual(self.run_command().returncode, 0)

    def test_users_outlive_the_server(self):
        self.user("add", "kept", "--name", "Kept")
        self.server.stop()
        self.server.start()
        self.env["CAISSON_URL"] = self.server.url
        self.assertIn("Kept", self.user("show", "kept"))

    def test_the_list_is_the_servers_json(self):
        self.assertIn("users", json.loads(self.user("list", "--json")))


if __name__ == "__main__":
    main()

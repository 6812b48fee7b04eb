"""What a console needs beside the sandboxes themselves: a login by cookie, who is who, ports, labels, visibility."""

import unittest

from api_case import ApiCase
from harness import Server, main, path_of, wait_for

LISTENER = "import socket,time; s=socket.socket(); s.bind(('127.0.0.1', {port})); s.listen(); time.sleep(1000)"


class Open(ApiCase):
    def test_the_server_says_what_it_offers_and_who_asks(self):
        body = self.server.get("/api/v1/server").json
        self.assertEqual((body["open"], body["vhost"], body["default_image"]), (True, "", "host"))
        self.assertEqual(body["caller"]["tenant"], "default")
        self.assertEqual(body["caller"]["scopes"], ["read", "use", "create", "admin"])

    def test_ports_are_those_where_somebody_listens(self):
        box = self.create()
        self.assertEqual(self.server.get(path_of(box, "ports")).json, {"exposed": [], "listening": []})
        for port in (8081, 3000):
            self.server.post(path_of(box, "processes"), {"argv": ["python3", "-c", LISTENER.format(port=port)]})
        wait_for(lambda: self.server.get(path_of(box, "ports")).json["listening"] == [3000, 8081], "both ports")

    def test_labels_change_one_by_one(self):
        box = self.create(labels={"a": "1", "b": "2"})
        answer = self.server.put(path_of(box, "labels"), {"labels": {"b": "", "c": "3"}})
        self.assertEqual(answer.json["labels"], {"a": "1", "c": "3"})
        self.refused(self.server.put(path_of(box, "labels"), {"labels": {"x": 1}}), 400, "InvalidArgument", "labels.x")
        self.refused(self.server.put(path_of(box, "labels"), {}), 400, "InvalidArgument", "labels")
        self.assertEqual(self.server.get(path_of(box)).json["labels"], {"a": "1", "c": "3"})

    def test_a_sandbox_is_private_until_somebody_says_otherwise(self):
        box = self.create()
        self.assertFalse(self.server.get(path_of(box)).json["public"])
        self.assertTrue(self.server.put(path_of(box, "visibility"), {"public": True}).json["public"])
        self.assertFalse(self.server.put(path_of(box, "visibility"), {"public": False}).json["public"])
        self.refused(self.server.put(path_of(box, "visibility"), {"public": "yes"}), 400, "InvalidArgument", "public")

    def test_no_preview_without_a_vhost(self):
        box = self.create()
        self.refused(self.server.post(path_of(box, "previews"), {"port": 80}), 501, "Unsupported")
        self.refused(self.server.post(path_of(box, "previews"), {"port": 0}), 400, "InvalidArgument", "port")

    def test_usage_of_many_at_once(self):
        boxes = [self.create(), self.create()]
        body = self.server.get("/api/v1/usage?ids=" + ",".join([*boxes, "a" * 26])).json
        self.assertEqual(sorted(body["usage"]), sorted(boxes))
        self.refused(self.server.get("/api/v1/usage?ids="), 400, "InvalidArgument", "ids")
        many = ",".join(["a" * 26] * 65)
        self.refused(self.server.get("/api/v1/usage?ids=" + many), 400, "InvalidArgument", "ids")

    def test_a_listing_is_taken_over_once(self):
        wish = {"tenant": "default", "executions": [], "sandboxes": [
            {"id": "ab" * 32, "name": "0" * 26, "label": "old", "image": "nginx", "last_active_at": 1.5}]}
        self.assertEqual(self.server.post("/api/v1/sandboxer/import", wish).json,
                         {"sandboxes": 1, "executions": 0, "skipped": 0})
        self.assertEqual(self.server.post("/api/v1/sandboxer/import", wish).json["skipped"], 1)
        wish["sandboxes"][0].pop("id")
        self.refused(self.server.post("/api/v1/sandboxer/import", wish), 400, "InvalidArgument", "sandboxes[0].id")


class WithTokens(ApiCase):
    flags = ()

    def token(self, *scopes, **more):
        wish = {"scopes": list(scopes), **more}
        answer = self.server.post("/api/v1/tokens", wish)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json

    def login(self, token):
        answer = self.server.post("/auth/token", {"token": token}, token="")
        if answer.status != 200:
            return answer, None
        return answer, answer.headers["Set-Cookie"].split(";")[0]

    def test_users_are_named_by_admins_alone(self):
        read = self.token("read", tenant="red")["token"]
        self.refused(self.server.get("/api/v1/users", token=read), 403, "Denied")
        self.refused(self.server.put("/api/v1/users/red", {"name": "Rosa"}, token=read), 403, "Denied")
        answer = self.server.put("/api/v1/users/red", {"name": "Rosa", "email": "rosa@example.com"})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual((answer.json["name"], answer.json["tokens"]), ("Rosa", 1))
        self.assertEqual(self.server.get("/api/v1/server", token=read).json["caller"]["name"], "Rosa")
        users = {user["tenant"]: user for user in self.server.get("/api/v1/users").json["users"]}
        self.assertEqual(users["default"]["created_at"], None, "it has tokens only")
        self.refused(self.server.put("/api/v1/users/red", {"name": "x" * 300}), 400, "InvalidArgument", "name")

    def test_without_its_entry_a_tenant_has_no_tokens(self):
        blue = self.token("read", tenant="blue")["token"]
        self.server.put("/api/v1/users/blue", {"name": "B"})
        self.assertEqual(self.server.delete("/api/v1/users/blue").status, 204)
        self.assertEqual(self.server.get("/api/v1/server", token=blue).status, 401)
        self.refused(self.server.delete("/api/v1/users/blue"), 404, "NotFound")

    def test_a_cookie_reads_and_changes_nothing_for_strangers(self):
        answer, cookie = self.login(self.token("read", "use", "create")["token"])
        self.assertEqual(answer.json, {"status": "ok"})
        said = answer.headers["Set-Cookie"]
        for word in ("HttpOnly", "SameSite=Strict", "Path=/"):
            self.assertIn(word, said)
        self.assertNotIn("Domain", said)
        ours = f"http://127.0.0.1:{self.server.port}"
        with_cookie = {"Cookie": cookie}

        def ask(method, path, body=None, **headers):
            fields = {**with_cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
            return self.server.request(method, path, body, headers=fields, token="").status

        self.assertEqual(ask("GET", "/api/v1/sandboxes"), 200)
        self.assertEqual(ask("GET", "/api/v1/sandboxes", Origin="http://evil.example"), 403)
        self.assertEqual(ask("GET", "/api/v1/sandboxes", Sec_Fetch_Site="same-site"), 403)
        self.assertEqual(ask("POST", "/api/v1/sandboxes", {}), 403, "no word of where it comes from")
        self.assertEqual(ask("POST", "/api/v1/sandboxes", {}, Origin="http://evil.example"), 403)
        self.assertEqual(ask("POST", "/api/v1/sandboxes", {}, Origin=ours), 201)
        self.assertEqual(ask("POST", "/auth/logout", Origin=ours), 303)
        self.assertEqual(ask("GET", "/api/v1/sandboxes"), 401, "it has logged out")

    def test_a_withdrawn_token_ends_its_logins(self):
        token = self.token("read")
        _, cookie = self.login(token["token"])
        headers = {"Cookie": cookie}
        self.assertEqual(self.server.get("/api/v1/server", headers=headers, token="").status, 200)
        self.assertEqual(self.server.delete("/api/v1/tokens/" + token["id"]).status, 204)
        self.assertEqual(self.server.get("/api/v1/server", headers=headers, token="").status, 401)

    def test_a_wrong_token_logs_nobody_in(self):
        answer, _ = self.login("cais_wrong")
        self.assertEqual((answer.status, answer.json), (401, {"detail": "Invalid token"}))
        self.assertNotIn("Set-Cookie", answer.headers)

    def test_a_token_of_another_system_is_good_here_once_it_is_taken_over(self):
        old = "x" * 43
        self.assertEqual(self.server.get("/api/v1/server", token=old).status, 401)
        made = self.token("read", tenant="old", taken_over=old)
        self.assertEqual(self.server.get("/api/v1/server", token=old).json["caller"]["tenant"], "old")
        self.server.delete("/api/v1/tokens/" + made["id"])
        self.assertEqual(self.server.get("/api/v1/server", token=old).status, 401)
        short = self.server.post("/api/v1/tokens", {"scopes": ["read"], "taken_over": "guess"})
        self.refused(short, 400, "InvalidArgument", "taken_over")


class Ends(unittest.TestCase):
    def test_a_new_server_knows_the_users_and_no_old_cookie(self):
        server = Server()
        self.addCleanup(server.close)
        server.start()
        server.put("/api/v1/users/red", {"name": "Rosa"})
        cookie = server.post("/auth/token", {"token": server.token}, token="").headers["Set-Cookie"].split(";")[0]
        server.stop()
        server.start()
        self.assertIn("Rosa", [user["name"] for user in server.get("/api/v1/users").json["users"]])
        self.assertEqual(server.get("/api/v1/server", headers={"Cookie": cookie}, token="").status, 401)


if __name__ == "__main__":
    main()

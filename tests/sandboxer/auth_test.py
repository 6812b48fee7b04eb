"""Who may knock: tokens, the login of a browser, other people's pages; and the words of every refusal."""

import socket

from sandboxer_case import SandboxerCase
from harness import main
from websocket import Refused, WebSocket

NOBODY = {"detail": "Authentication required"}


def cookie_of(answer):
    """(name, value, {attribute: value}) of the only cookie."""
    first, *rest = [part.strip() for part in answer.headers["Set-Cookie"].split(";")]
    name, _, value = first.partition("=")
    fields = {one.partition("=")[0].lower(): one.partition("=")[2] for one in rest}
    return name, value, fields


class Auth(SandboxerCase):
    def log_in(self, **more):
        answer = self.ask("POST", "/auth/token", {"token": self.server.token}, token="", **more)
        self.assertEqual((answer.status, answer.json), (200, {"status": "ok"}))
        return answer

    def own(self):
        return f"http://127.0.0.1:{self.server.port}"

    # --- what must not work

    def test_everything_needs_a_user(self):
        for method, path in (("GET", "/sandboxes"), ("POST", "/sandboxes"), ("GET", "/events"), ("GET", "/auth/me"),
                             ("GET", "/volumes"), ("GET", "/sandboxes/" + "0" * 64), ("PUT", "/sandboxes/x/pause"),
                             ("GET", "/sandboxes/nothing/proxy/"), ("GET", "/sandboxes/a/b/c")):
            for token in ("", "cais_nothing_at_all", "x" * 64):
                answer = self.ask(method, path, token=token)
                self.assertEqual((answer.status, answer.json), (401, NOBODY), path)
                self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")

    def test_a_websocket_needs_a_user(self):
        with self.assertRaises(Refused) as refused:
            WebSocket(self.server, "/sandboxes/" + "0" * 64 + "/attach", {"Authorization": ""})
        self.assertEqual(refused.exception.status, 401)

    def test_a_wrong_token_is_no_login(self):
        answer = self.ask("POST", "/auth/token", {"token": "wrong"}, token="")
        self.detail(answer, 401, "Invalid token")
        self.assertNotIn("Set-Cookie", answer.headers)

    def test_a_forged_cookie_is_nobody(self):
        # {"user_id": "1"} signed with the text "None", which was enough for the original.
        forged = "eyJ1c2VyX2lkIjogIjEifQ==.ZmFrZQ.AAAAAAAAAAAAAAAAAAAAAAAAAAA"
        self.assertEqual(self.ask("GET", "/sandboxes", token="", headers={"Cookie": f"SID={forged}"}).status, 401)

    def test_a_page_of_somebody_else_changes_nothing(self):
        _, value, _ = cookie_of(self.log_in())
        box = self.make()
        evil = {"Cookie": f"SID={value}", "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
        for method, path in (("DELETE", self.at(box)), ("POST", self.at(box, "files/")), ("POST", "/auth/logout"),
                             ("POST", self.at(box, "coalesce", box["id"])), ("GET", "/sandboxes")):
            self.assertEqual(self.ask(method, path, token="", headers=evil).status, 403, path)
        # Without Origin it could be a form of any page.
        bare = {"Cookie": f"SID={value}"}
        self.assertEqual(self.ask("DELETE", self.at(box), token="", headers=bare).status, 403)
        self.assertEqual(self.show(box)["status"], "running")
        self.assertEqual(self.ask("GET", "/auth/me", token="", headers=bare).status, 200)

    def test_a_name_that_is_not_ours_is_refused(self):
        self.assertEqual(self.ask("GET", "/sandboxes", headers={"Host": "evil.example"}).status, 421)

    def test_a_sandbox_of_another_tenant_is_not_there(self):
        box = self.make()
        other = self.tenant("other-tenant")
        for method, path, body in (
                ("GET", "", None), ("PATCH", "", {"label": "x"}), ("DELETE", "", None), ("POST", "/fork", {"label": ""}),
                ("POST", "/execute", {"code": "id"}), ("GET", "/logs", None), ("GET", "/tree", None),
                ("GET", "/execution-logs", None), ("GET", "/command-executions", None), ("PUT", "/pause", None),
                ("DELETE", "/pause", None), ("GET", "/files/etc", None), ("POST", f"/coalesce/{box['id']}", None)):
            answer = self.ask(method, self.at(box) + path, body, token=other)
            self.detail(answer, 404, "Sandbox not found")
        self.assertEqual(self.rows(token=other), {})
        self.detail(self.ask("GET", self.at(box, "proxy/"), token=other), 403, "Access denied")
        with self.assertRaises(Refused) as refused:
            WebSocket(self.server, self.at(box, "attach"), {"Authorization": f"Bearer {other}"})
        self.assertEqual(refused.exception.status, 403)

    def test_a_token_without_the_scope_is_told_which(self):
        reader = self.tenant("default", "read")
        self.assertEqual(self.ask("GET", "/sandboxes", token=reader).status, 200)
        answer = self.ask("POST", "/sandboxes", {"image": "busybox", "label": "x"}, token=reader)
        self.detail(answer, 403, 'This needs a token with the scope "create"')

    def test_github_is_not_enabled(self):
        for path in ("/auth/github", "/auth/github/callback?code=x", "/auth/github/callback"):
            self.detail(self.ask("GET", path, token=""), 403, "GitHub authentication is not enabled")

    def test_a_body_does_not_outlive_its_token(self):
        box = self.make()
        token = self.tenant("default")
        body = b'{"code": "touch /owned"}'
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as raw:
            raw.sendall((f"POST {self.at(box, 'execute')} HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n"
                         f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
                         f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n").encode())
            self.assertIn(b" 100 ", raw.recv(4096))  # it is known, and may send its body
            self.assertEqual(self.ask("DELETE", f"/api/v1/tokens/{token.split('_')[1]}").status, 204)
            seen = b""
            try:
                raw.sendall(body)
                seen = raw.recv(4096)
            except ConnectionError:
                pass  # it is cut, as it should be
            self.assertEqual(seen, b"")
        self.assertEqual(self.execute(box, "ls /owned")["exit_code"], 1)

    # --- what works

    def test_a_login_is_a_cookie_of_this_host_alone(self):
        name, value, fields = cookie_of(self.log_in())
        self.assertEqual(name, "SID")
        self.assertEqual((fields["path"], fields["max-age"]), ("/", "86400"))
        self.assertIn("httponly", fields)
        self.assertNotIn("domain", fields)
        self.assertNotIn("secure", fields)
        bare = {"Cookie": f"SID={value}"}
        answer = self.ask("GET", "/auth/me", token="", headers=bare)
        self.assertEqual(answer.json["id"], "default")
        self.assertEqual(list(answer.json), ["id", "email", "name", "avatar_url"])
        # Shown again with each answer.
        self.assertEqual(cookie_of(answer)[:2], ("SID", value))

    def test_behind_tls_the_cookie_is_secure(self):
        name, _, fields = cookie_of(self.log_in(headers={"X-Forwarded-Proto": "https"}))
        self.assertEqual(name, "__Host-SID")
        self.assertIn("secure", fields)

    def test_a_page_of_ours_may_change_things(self):
        _, value, _ = cookie_of(self.log_in())
        box = self.make()
        own = {"Cookie": f"SID={value}", "Origin": self.own(), "Sec-Fetch-Site": "same-origin"}
        answer = self.ask("PATCH", self.at(box), {"label": "by cookie"}, token="", headers=own)
        self.assertEqual(answer.status, 200, answer.body)

    def test_a_logout_ends_the_login(self):
        _, value, _ = cookie_of(self.log_in())
        own = {"Cookie": f"SID={value}", "Origin": self.own()}
        answer = self.ask("POST", "/auth/logout", token="", headers=own)
        self.assertEqual((answer.status, answer.headers["Location"], answer.body), (303, "/", b""))
        self.assertEqual(cookie_of(answer)[1:2] + (cookie_of(answer)[2]["max-age"],), ("", "0"))
        self.assertEqual(self.ask("GET", "/auth/me", token="", headers={"Cookie": f"SID={value}"}).status, 401)

    def test_me_has_names_also_without_an_entry(self):
        me = self.good("GET", "/auth/me")
        self.assertEqual(me["id"], "default")
        self.assertTrue(all(isinstance(one, str) and one for one in me.values()), me)
        self.assertTrue(me["avatar_url"].startswith("https://"))

    # --- manners of HTTP

    def test_routes_methods_and_slashes(self):
        self.detail(self.ask("GET", "/sandboxes/a/b"), 404, "Not Found")
        self.detail(self.ask("GET", "/volumes"), 404, "Not Found")
        self.detail(self.ask("GET", "/auth/nothing", token=""), 404, "Not Found")
        answer = self.ask("PUT", "/sandboxes")
        self.detail(answer, 405, "Method Not Allowed")
        self.assertEqual(answer.headers["Allow"], "GET, POST")
        for path, to in (("/sandboxes/", "/sandboxes"), ("/sandboxes/x/files?a=b", "/sandboxes/x/files/?a=b"),
                         ("/sandboxes/x/proxy", "/sandboxes/x/proxy/")):
            answer = self.ask("GET", path)
            self.assertEqual((answer.status, answer.headers["Location"]), (307, self.own() + to))

    def test_what_is_wrong_with_a_body_is_said_in_detail(self):
        answer = self.ask("POST", "/sandboxes", {"image": 1, "env": [], "args": {}, "interactive": "perhaps"})
        self.assertEqual(answer.status, 422)
        found = {(one["type"], ".".join(one["loc"])): one for one in answer.json["detail"]}
        self.assertEqual(set(found), {("string_type", "body.image"), ("missing", "body.label"),
                                      ("bool_parsing", "body.interactive"), ("dict_type", "body.env"),
                                      ("list_type", "body.args")})
        self.assertEqual(found["missing", "body.label"]["msg"], "Field required")
        answer = self.ask("POST", "/sandboxes", raw=b'{"image": ', headers={"Content-Type": "application/json"})
        self.assertEqual(answer.status, 422)
        self.assertEqual((answer.json["detail"][0]["type"], answer.json["detail"][0]["loc"]), ("json_invalid", ["body", 10]))
        answer = self.ask("POST", "/sandboxes")
        self.assertEqual((answer.status, answer.json["detail"][0]["loc"]), (422, ["body"]))
        answer = self.ask("POST", "/sandboxes", raw=b"image=x", headers={"Content-Type": "text/plain"})
        self.assertEqual((answer.status, answer.json["detail"][0]["type"]), (422, "model_attributes_type"))
        box = self.make()
        answer = self.ask("GET", self.at(box, "logs?stream=perhaps"))
        self.assertEqual((answer.status, answer.json["detail"][0]["type"], answer.json["detail"][0]["loc"]),
                         (422, "bool_parsing", ["query", "stream"]))
        answer = self.ask("GET", self.at(box, "execution-logs?limit=many"))
        self.assertEqual((answer.status, answer.json["detail"][0]["type"]), (422, "int_parsing"))

    def test_a_body_that_is_too_large_is_not_read(self):
        answer = self.ask("POST", "/sandboxes", {"image": "x" * (3 << 20), "label": ""})
        self.assertEqual(answer.status, 413)

    def test_json_without_a_type_is_json(self):
        box = self.make()
        answer = self.ask("PATCH", self.at(box), raw=b'{"label": "new"}', headers={"Content-Type": ""})
        self.assertEqual(answer.status, 200, answer.body)


if __name__ == "__main__":
    main()

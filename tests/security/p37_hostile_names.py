"""P37: input never turns into code. Names that a guest or a client made travel through upload, list, tar, watch, audit,
headers and the log: they arrive as they are, as data, and never as a header, a frame, a line or a command."""

import base64
import io
import json
import socket
import tarfile
import urllib.parse

import live_server
from live_server import Attack

# What a client may use as a name, and what only a guest can make.
NAMES = ["quote\"'`.txt", "$(id >owned)", "`id >owned`", "; id >owned #", "rtl\u202eexe.txt",
         "'; DROP TABLE sandboxes;--", "<script>alert(1)<script>.html", "semi;filename=x.html",
         "percent%0d%0aX-Injected: 1", "back\\slash", "-rf",
         "--version", "ünïcödé", "*", "&&id", "a b", "CON", "{path}", "%s%n", "\u2028line", "a=b&c=d?e#f"]
CONTROL = ["new\nline", "cr\r\nX-Injected: 1", "esc\x1b]0;owned\x07\x1b[2J", "tab\t", "bell\x07", "del\x7f",
           "x\n\nevent: exit\ndata: {\"exit_code\":0}\n\n"]
# Whatever stands in the quotes, a quote of the name ends nothing there.
DISPOSITION = r"""^attachment(; filename="([^"\\\x00-\x1f]|\\.)*")?(; filename\*=UTF-8''[\w%!#$&+.^`|~-]*)?$"""


def escaped(name):
    return urllib.parse.quote(name.encode("utf-8", "surrogateescape"), safe="")


class HostileNames(Attack):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.token = cls.server.new_token("red", "read", "use", "create")["token"]

    def setUp(self):
        self.box = self.server.sandbox(self.token)

    def tearDown(self):
        self.call("DELETE", "")

    def call(self, method, path, body=None, **more):
        answer = self.server.call(method, f"/api/v1/sandboxes/{self.box}{path}", body, self.token, **more)
        for name, value in answer.headers:
            self.assertNotEqual(name.lower(), "x-injected")
            self.assertTrue((name + value).isprintable() and (name + value).isascii(), (name, value))
        return answer

    def inside(self, folder="."):
        """Names as the guest's kernel has them."""
        script = f"cd {folder} && find . -mindepth 1 -print0 | base64 -w0"
        names = base64.b64decode(self.server.run(self.token, self.box, script)["stdout"]).split(b"\0")
        return {name[2:].decode("utf-8", "surrogateescape") for name in names if name}

    def make_inside(self, names, folder="/workspace"):
        packed = base64.b64encode(b"\0".join(name.encode("utf-8", "surrogateescape") for name in names)).decode()
        script = "import os,sys,base64\nfor n in base64.b64decode(sys.argv[2]).split(b'\\0'):\n" \
                 " open(os.path.join(sys.argv[1].encode(),n),'wb').write(b'data')"
        answer = self.call("POST", "/exec", {"argv": ["/usr/bin/python3", "-c", script, folder, packed]})
        self.assertEqual((answer.status, answer.json()["exit_code"]), (200, 0), answer)

    def test_names_arrive_as_they_are(self):
        for name in NAMES:
            with self.subTest(name=name):
                answer = self.call("PUT", f"/files/{escaped(name)}", name.encode())
                self.assertIn(answer.status, (200, 201, 204), answer)
                got = self.call("GET", f"/files/{escaped(name)}")
                self.assertEqual((got.status, got.body), (200, name.encode()))
        self.assertEqual(self.inside(), set(NAMES))
        listed = self.call("GET", "/list/.").json()
        self.assertEqual({entry["name"] for entry in listed["entries"]}, set(NAMES))
        with tarfile.open(fileobj=io.BytesIO(self.call("GET", "/archive/.").body)) as archive:
            packed = {member.name.removeprefix("./").strip("/") for member in archive if member.isfile()}
        self.assertEqual({name.rsplit("/", 1)[-1] for name in packed}, set(NAMES))
        for name in NAMES:
            self.assertEqual(self.call("DELETE", f"/files/{escaped(name)}").status, 200, name)
        self.assertEqual(self.inside(), set())

    def test_a_client_may_not_use_control_characters(self):
        for name in [*CONTROL, "nul\0byte", "a/../../b"]:
            with self.subTest(name=name):
                for method, route in (("PUT", "files"), ("GET", "files"), ("GET", "list"), ("GET", "stat"),
                                      ("DELETE", "files"), ("GET", "archive"), ("GET", "watch"), ("HEAD", "files")):
                    answer = self.call(method, f"/{route}/{escaped(name)}", b"x" if method == "PUT" else None)
                    self.assertIn(answer.status, (400, 403, 404), (method, route, answer))
                for route, body in (("mkdir", {"path": name}), ("move", {"from": name, "to": "y"}),
                                    ("tools/execute", {"tool": "file_write",
                                                       "arguments": {"path": name, "content": "x"}})):
                    answer = self.call("POST", f"/{route}", body)
                    self.assertIn(answer.status, (400, 403, 404), (route, answer))
        self.assertEqual(self.inside(), set())

    def test_bytes_that_are_no_text_do_not_spoil_json(self):
        for method, route in (("PUT", "files"), ("GET", "stat"), ("GET", "files"), ("DELETE", "files")):
            answer = self.call(method, f"/{route}/{escaped('bad' + chr(0xdcff))}", b"x" if method == "PUT" else None)
            self.assertLess(answer.status, 500, answer)
        for path in ("/api/v1/audit?limit=1000", f"/api/v1/sandboxes/{self.box}/logs", "/api/v1/sandboxes"):
            answer = self.server.call("GET", path, token=self.token)
            self.assertEqual(answer.status, 200)
            json.loads(answer.body.decode("utf-8", "strict"))

    def test_a_guests_names_are_only_data(self):
        names = [*CONTROL, "bad\udcff", *NAMES]
        names = [name for name in names if "/" not in name]
        self.make_inside(names)
        self.assertEqual(self.inside(), set(names))
        listed = self.call("GET", "/list/.")
        found = {entry["name"] for entry in listed.json()["entries"]}
        self.assertEqual(len(found), len(names))
        self.assertLessEqual({name for name in names if "\udcff" not in name}, found)
        self.assertNotIn(b"\x1b", listed.body)
        with tarfile.open(fileobj=io.BytesIO(self.call("GET", "/archive/.").body),
                          errors="surrogateescape") as archive:
            packed = {member.name.rsplit("/", 1)[-1] for member in archive if member.isfile()}
        self.assertEqual(packed, set(names))

    def test_an_uploaded_archive_is_only_data(self):
        buffer = io.BytesIO()
        names = [*CONTROL, *NAMES]
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 1
                archive.addfile(member, io.BytesIO(b"x"))
        answer = self.call("PUT", "/archive/.", buffer.getvalue(), headers={"Content-Type": "application/x-tar"})
        self.assertIn(answer.status, (200, 400, 403), answer)
        self.assertLessEqual(self.inside(), set(names))

    def test_an_event_is_one_frame(self):
        request = (f"GET /api/v1/sandboxes/{self.box}/watch/. HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.token}\r\n\r\n").encode()
        with socket.create_connection(("127.0.0.1", self.server.port), live_server.PATIENCE) as link:
            link.sendall(request)
            seen = b""
            while b"event: ready" not in seen:
                part = link.recv(65536)
                self.assertTrue(part, seen)
                seen += part
            self.make_inside([*CONTROL, "the-last"])
            while b"the-last" not in seen:
                part = link.recv(65536)
                self.assertTrue(part)
                seen += part
        kinds = {line.split(b":", 1)[1].strip() for line in seen.splitlines() if line.startswith(b"event:")}
        self.assertLessEqual(kinds, {b"ready", b"change"}, seen)
        self.assertNotIn(b"\nX-Injected", seen)
        for line in seen.split(b"\n"):
            if line.startswith(b"data:") and b"the-last" not in line:
                json.loads(line[5:])

    def test_arguments_are_not_for_a_shell(self):
        words = [name for name in [*NAMES, *CONTROL] if name]
        answer = self.call("POST", "/exec", {"argv": ["/usr/bin/printf", "%s\\0", *words], "encoding": "base64"})
        out = base64.b64decode(answer.json()["stdout"]).decode()
        self.assertEqual(out.split("\0")[:-1], words)
        for name in NAMES:
            answer = self.call("POST", "/tools/execute", {"tool": "file_write",
                                                          "arguments": {"path": name, "content": name}})
            self.assertEqual(answer.status, 200, answer)
            answer = self.call("POST", "/tools/execute", {"tool": "file_read", "arguments": {"path": name}})
            self.assertEqual(answer.json()["result"]["content"], name)
        self.assertNotIn("owned", self.inside())

    def test_a_page_is_not_served_as_a_page(self):
        page = b"<!doctype html><script>fetch('/api/v1/sandboxes')</script>"
        for name in ("x.html", "x.htm", "x.svg", "x.xhtml", "x.xml", "x.js", "x", "x.html;.txt", "a\".html", "x.mht"):
            self.call("PUT", f"/files/{escaped(name)}", page, headers={"Content-Type": "text/html"})
            for method in ("GET", "HEAD"):
                answer = self.call(method, f"/files/{escaped(name)}")
                self.assertEqual(answer.status, 200)
                kind = answer.header("Content-Type") or ""
                for active in ("html", "svg", "xml", "javascript", "multipart"):
                    self.assertNotIn(active, kind, name)
                self.assertTrue(answer.header("Content-Disposition").startswith("attachment"), name)
                self.assertEqual(answer.header("X-Content-Type-Options"), "nosniff")
                self.assertIn("sandbox", answer.header("Content-Security-Policy"))

    def test_a_disposition_has_one_encoded_name(self):
        for name in NAMES:
            self.call("PUT", f"/files/{escaped(name)}", b"x")
            value = self.call("GET", f"/files/{escaped(name)}").header("Content-Disposition")
            self.assertRegex(value, DISPOSITION)

    def test_text_for_the_database_is_only_text(self):
        evil = "x'); DROP TABLE tokens; DELETE FROM audit; --"
        answer = self.server.call("POST", "/api/v1/sandboxes", {"name": evil, "labels": {evil: evil}}, self.token)
        if answer.status == 201:
            self.assertEqual((answer.json()["name"], answer.json()["labels"]), (evil, {evil: evil}))
        else:
            self.assertEqual(answer.status, 400)
        before = self.server.call("GET", "/api/v1/audit?limit=1000", token=self.token).json()["rows"]
        self.assertTrue(before)
        for field in ("sandbox", "action", "tenant", "outcome"):
            for value in ("' OR '1'='1", "x' UNION SELECT * FROM tokens --", "\"", "%", "\\", "a\0b", "x\ny"):
                answer = self.server.call("GET", f"/api/v1/audit?{field}={escaped(value)}", token=self.server.admin)
                self.assertIn(answer.status, (200, 400, 403), answer)
                if answer.status == 200:
                    self.assertEqual(answer.json()["rows"], [], (field, value))
        after = self.server.call("GET", "/api/v1/audit?limit=1000", token=self.token).json()["rows"]
        self.assertGreaterEqual(len(after), len(before))
        self.assertTrue(self.server.call("GET", "/api/v1/audit/verify", token=self.server.admin).json()["intact"])


if __name__ == "__main__":
    live_server.main()

"""Files in and out, and every way that must not lead out of the sandbox."""

import http.client
import os

from sandboxer_case import SLOW, SandboxerCase
from harness import main

BOUNDARY = "----caisson-test-boundary"


def form(*parts):
    """(name, filename or None, bytes)…"""
    out = []
    for name, filename, content in parts:
        shown = f'; filename="{filename}"' if filename is not None else ""
        out += [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{shown}\r\n\r\n'.encode(), content, b"\r\n"]
    return b"".join(out) + f"--{BOUNDARY}--\r\n".encode()


class Files(SandboxerCase):
    def send(self, box, path, *parts, raw=None):
        return self.ask("POST", self.at(box, "files", path), raw=raw or form(*parts),
                        headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})

    def upload(self, box, path, *parts):
        answer = self.send(box, path, *parts)
        self.assertEqual((answer.status, answer.json), (200, {"message": "Files uploaded successfully"}), answer.body)

    def fetch(self, box, path):
        return self.ask("GET", self.at(box, "files", path))

    def entries(self, box, path):
        found = self.good("GET", self.at(box, "files", path))
        self.assertEqual(list(found), ["entries"])
        return {one["name"]: one for one in found["entries"]}

    # --- what must not work

    def test_no_path_leads_to_the_host(self):
        box = self.make()
        canary = "/etc/machine-id"
        self.run_one(box, f"ln -s /proc/1/root /one; ln -s ../../../../../.. /up; ln -s {canary} /etc/host; ln -s / /r")
        raw = [f"../..{canary}", f"..%2f..%2f..%2f..{canary}", f"%2e%2e/%2e%2e{canary}", f"a/../..{canary}",
               f"/..{canary}", f"etc/..%2f..{canary}"]
        for path in raw:
            self.detail(self.fetch(box, path), 400, "Path traversal not allowed")
        with open(canary, "rb") as file:
            secret = file.read()
        # A link leads where it leads inside.
        for path in (f"up{canary}", "etc/host", f"r/r/r{canary}", f"one{canary}"):
            answer = self.fetch(box, path)
            self.assertEqual(answer.status, 400, path)
            self.assertNotIn(secret, answer.body)

    def test_no_upload_leads_to_the_host(self):
        box = self.make()
        mark = f"caisson-escape-{os.getpid()}"
        self.run_one(box, "mkdir /up; ln -s ../../../../../.. /up/top; ln -s /tmp /up/tmp")
        for name in (f"../../../../../../../../tmp/{mark}", f"a/../../{mark}", ".."):
            self.detail(self.send(box, "tmp", ("files", name, b"x")), 400, "Path traversal not allowed")
        for name in (f"/tmp/{mark}", f"top/tmp/{mark}", f"tmp/{mark}-2"):
            self.upload(box, "up", ("files", name, b"x"))
        self.assertFalse(os.path.exists(f"/tmp/{mark}"))
        self.assertFalse(os.path.exists(f"/tmp/{mark}-2"))
        self.assertEqual(self.run_one(box, f"cat /up/tmp/{mark}")[0], "x")

    def test_what_is_not_there_is_said(self):
        box = self.make()
        self.detail(self.fetch(box, "nothing/here"), 400, "Path not found")
        self.detail(self.fetch(box, "etc/passwd/below"), 400, "Path not found")
        self.detail(self.fetch(box, "dev/null"), 400, "Path is not a file")
        self.detail(self.ask("GET", "/sandboxes/" + "0" * 64 + "/files/etc"), 404, "Sandbox not found")

    def test_an_upload_needs_a_folder_and_files(self):
        box = self.make()
        self.detail(self.send(box, "etc/passwd", ("files", "a", b"x")), 400, "Target path must be a directory")
        self.detail(self.send(box, "nothing", ("files", "a", b"x")), 400, "Path not found")
        for parts in ((("other", "a", b"x"),), (("files", None, b"x"),)):
            answer = self.send(box, "tmp", *parts)
            self.assertEqual((answer.status, answer.json["detail"][0]["type"], answer.json["detail"][0]["loc"]),
                             (422, "missing", ["body", "files"]))
        answer = self.ask("POST", self.at(box, "files/tmp"), raw=b"{}", headers={"Content-Type": "application/json"})
        self.assertEqual(answer.status, 422)
        self.assertEqual(self.send(box, "tmp", raw=b"no form at all").status, 400)

    def test_an_upload_that_breaks_off_leaves_nothing(self):
        box = self.make()
        whole = form(("files", "half", b"x" * 100000))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SLOW)
        connection.putrequest("POST", self.at(box, "files/tmp"))
        connection.putheader("Authorization", f"Bearer {self.server.token}")
        connection.putheader("Content-Type", f"multipart/form-data; boundary={BOUNDARY}")
        connection.putheader("Content-Length", str(len(whole)))
        connection.endheaders(whole[:50000])
        connection.close()
        self.assertEqual(self.run_one(box, "ls /tmp")[0], "")

    def test_too_many_files_are_refused(self):
        box = self.make()
        answer = self.send(box, "tmp", *(("files", f"f{i}", b"") for i in range(1001)))
        self.assertEqual(answer.status, 413)

    # --- what works

    def test_a_folder_is_listed_without_links(self):
        box = self.make()
        self.run_one(box, "mkdir -p /w/sub; printf 12345 >/w/a; ln -s a /w/link")
        found = self.entries(box, "w")
        self.assertEqual(found["a"], {"name": "a", "is_dir": False, "size": 5, "path": "w/a"})
        self.assertEqual(found["sub"], {"name": "sub", "is_dir": True, "size": 0, "path": "w/sub"})
        self.assertNotIn("link", found)
        self.assertEqual(self.entries(box, "w/")["a"]["path"], "w/a")
        self.assertEqual(self.entries(box, "")["w"]["path"], "w")
        self.assertEqual(self.entries(box, "/w")["a"]["path"], "/w/a")

    def test_a_large_folder_is_cut(self):
        box = self.make()
        self.run_one(box, "mkdir /many; cd /many; for i in $(seq 1 1200); do : >$i; done")
        self.assertEqual(len(self.entries(box, "many")), 1000)

    def test_a_file_comes_back_as_it_is(self):
        box = self.make()
        content = os.urandom(3_000_000)
        self.upload(box, "tmp", ("files", "big.bin", content))
        answer = self.fetch(box, "tmp/big.bin")
        self.assertEqual(answer.body, content)
        self.assertEqual(answer.headers["Content-Type"], "application/octet-stream")
        self.assertEqual(answer.headers["Content-Disposition"], 'attachment; filename="big.bin"')
        self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
        self.run_one(box, "echo hi >'/tmp/a b.txt'; echo '<b>' >/tmp/page.html")
        self.assertEqual(self.fetch(box, "tmp/a%20b.txt").headers["Content-Type"], "text/plain; charset=utf-8")
        page = self.fetch(box, "tmp/page.html")
        self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(page.headers["Content-Security-Policy"], "sandbox")

    def test_a_folder_is_uploaded_with_its_tree(self):
        box = self.make()
        self.upload(box, "tmp", ("files", "site/index.html", b"1"), ("files", "site/css/a.css", b"2"),
                    ("note", None, b"ignored"), *((("files", f"site/many/{i}", b"x")) for i in range(200)))
        self.assertEqual(self.run_one(box, "cat /tmp/site/index.html /tmp/site/css/a.css; ls /tmp/site/many | wc -l")[0],
                         "12200")
        self.assertEqual(self.run_one(box, "stat -c '%a %u' /tmp/site /tmp/site/css/a.css")[0], "755 0\n644 0")

    def test_what_was_there_keeps_its_mode_and_owner(self):
        box = self.make()
        self.run_one(box, "mkdir /shared; chmod 1777 /shared; mkdir /shared/in; chmod 700 /shared/in; "
                          "echo old >/shared/in/file; chmod 755 /shared/in/file")
        self.upload(box, "shared", ("files", "in/file", b"new"), ("files", "in/fresh", b"x"))
        self.assertEqual(self.run_one(box, "stat -c '%a %u' /shared /shared/in /shared/in/file /shared/in/fresh; "
                                           "cat /shared/in/file")[0], "1777 0\n700 0\n755 0\n644 0\nnew")

    def test_a_paused_sandbox_answers_at_once(self):
        box = self.make()
        self.good("PUT", self.at(box, "pause"))
        self.assertIn(self.fetch(box, "etc").status, (200, 409))


if __name__ == "__main__":
    main()

"""P38: the file routes cannot be led out of the sandbox or made to hang. A guest lays links, pipes, sockets, devices,
endless files and endless folders, and exchanges a folder for a link while a client uses it."""

import http.client
import io
import os
import socket
import tarfile
import urllib.parse

import live_server
from live_server import Attack

SECRET = "host-canary-" + os.urandom(8).hex()
SWAPS = 10_000  # calls in all, while the guest exchanges the two
EXCHANGE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print("swapping", flush=True)
while True:
    libc.renameat2(-100, b"/workspace/d", -100, b"/workspace/l", 2)
"""


def escaped(path):
    return urllib.parse.quote(path, safe="/")


class FileRoutes(Attack):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.token = cls.server.new_token("red", "read", "use", "create")["token"]
        # A folder that everybody on the host may change: only the wall keeps the sandbox out.
        cls.prey = cls.server.folder / "prey"
        cls.prey.mkdir()
        cls.prey.chmod(0o777)
        (cls.prey / "f").write_text(SECRET, encoding="ascii")
        (cls.prey / "f").chmod(0o666)

    def setUp(self):
        self.box = self.server.sandbox(self.token, resource_limits={"memory_mb": 256})

    def tearDown(self):
        self.call("DELETE", "")
        self.assertEqual([path.name for path in self.prey.iterdir()], ["f"])
        self.assertEqual((self.prey / "f").read_text(encoding="ascii"), SECRET)

    def call(self, method, path, body=None, **more):
        answer = self.server.call(method, f"/api/v1/sandboxes/{self.box}{path}", body, self.token, **more)
        self.assertNotIn(SECRET.encode(), answer.body)
        self.assertNotEqual(answer.status, 500, (method, path, body, answer))
        return answer

    def run_inside(self, command):
        return self.server.run(self.token, self.box, command)

    def every_route(self, path):
        """Status by route. `path` is a name in the workspace; each call must come back."""
        at = escaped(path)
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            member = tarfile.TarInfo("f")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"owned"))
        calls = {
            "stat": ("GET", f"/stat/{at}", None), "lstat": ("GET", f"/stat/{at}?follow=false", None),
            "head": ("HEAD", f"/files/{at}", None), "get": ("GET", f"/files/{at}", None),
            "list": ("GET", f"/list/{at}", None), "deep list": ("GET", f"/list/{at}?recursive=true", None),
            "archive": ("GET", f"/archive/{at}", None),
            "read": ("POST", "/tools/execute", {"tool": "file_read", "arguments": {"path": path}}),
            "entries": ("POST", "/tools/execute", {"tool": "file_list", "arguments": {"path": path}}),
            "unpack": ("PUT", f"/archive/{at}", tar.getvalue()),
            "put below": ("PUT", f"/files/{at}/f", b"owned"),
            "mkdir below": ("POST", "/mkdir", {"path": f"{path}/new"}),
            "move below": ("POST", "/move", {"from": f"{path}/f", "to": "stolen", "replace": True}),
            "read moved": ("GET", "/files/stolen", None), "delete below": ("DELETE", f"/files/{at}/f", None),
            "put": ("PUT", f"/files/{at}", b"owned"),
            "write": ("POST", "/tools/execute",
                      {"tool": "file_write", "arguments": {"path": path, "content": "owned"}}),
            "delete": ("DELETE", f"/files/{at}?recursive=true", None),
        }
        return {name: self.call(method, route, body).status for name, (method, route, body) in calls.items()}

    def test_links_lead_nowhere_but_inside(self):
        targets = [f"{root}{self.prey}" for root in (
            "", "/proc/self/root", "/proc/1/root", "/proc/thread-self/root", "/proc/self/cwd/../../..", "/proc/1/cwd",
            "/proc/self/fd/0/..", "../../../../../../..", "/proc/self/task/1/root", "/dev/fd/0/../../..")]
        targets += [target + "/f" for target in targets]
        for target in targets:
            with self.subTest(target=target):
                self.run_inside(f"rm -rf a; ln -s '{target}' a")
                self.every_route("a")
        self.run_inside(f"mkdir -p tree; ln -s {self.prey} tree/one; ln -s /proc/1/root tree/two; ln -s . tree/three")
        self.every_route("tree")

    def test_absolute_paths_are_the_guests(self):
        self.run_inside("mkdir -p tree")
        for path in (f"/{self.prey}/f", f"//proc/1/root{self.prey}/f", f"//proc/self/root{self.prey}/f",
                     f"//proc/self/cwd/../{self.prey}/f", f"/tree/../../..{self.prey}/f", f"/..{self.prey}/f",
                     f"/%2e%2e/%2e%2e{self.prey}/f", f"/%2F..{self.prey}/f", f"/..%2f..%2f{self.prey}/f",
                     f"//{self.server.state}/server/caisson.db", f"//proc/{self.server.pid}/environ",
                     "//proc/1/environ", "//proc/1/mem", "//proc/1/maps"):
            for method, route in (("GET", "files"), ("GET", "list"), ("GET", "stat"), ("GET", "archive"),
                                  ("DELETE", "files")):
                answer = self.call(method, f"/{route}{path}")
                if "/proc/" not in path:
                    self.assertIn(answer.status, (400, 403, 404), (method, route, path, answer))
            # An upload makes the folders that are missing, inside: the host's are looked at afterwards.
            self.call("PUT", f"/files{path}", b"owned")
            self.call("DELETE", f"/files{path}")

    def test_the_hosts_own_files_are_not_those_inside(self):
        for path in ("/etc/shadow", "/etc/machine-id", "/root"):
            self.assertIn(self.call("GET", f"/files/{path}").status, (400, 403, 404))
        self.assertNotIn(b"caissond", self.call("GET", "/files//proc/1/cmdline").body)

    def test_pipes_sockets_and_devices_do_not_hang_it(self):
        self.run_inside("mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
        for name in ("fifo", "sock"):
            self.assertEqual(self.call("GET", f"/files/{name}", timeout=15).status, 400, name)
            statuses = self.every_route(name)
            self.assertEqual(statuses["lstat"], 200, (name, statuses))
            self.assertIn(statuses["read"], (400, 403, 404, 409), (name, statuses))
        for device in ("zero", "full", "random", "urandom", "null", "tty", "ptmx"):
            self.assertIn(self.call("GET", f"/files//dev/{device}", timeout=15).status, (400, 403, 404), device)
            self.run_inside(f"rm -rf a; ln -s /dev/{device} a")
            self.assertIn(self.call("GET", "/files/a", timeout=15).status, (400, 403, 404), device)
        self.run_inside("mkdir -p t; mkfifo t/p; ln -s /dev/zero t/z; echo x >t/x")
        with tarfile.open(fileobj=io.BytesIO(self.call("GET", "/archive/t", timeout=15).body)) as archive:
            self.assertIn("x", {member.name.rsplit("/", 1)[-1] for member in archive if member.isfile()})

    def begin(self, path):
        """The first bytes of an answer; then the client hangs up."""
        request = (f"GET /api/v1/sandboxes/{self.box}{path} HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.token}\r\n\r\n").encode()
        with socket.create_connection(("127.0.0.1", self.server.port), 20) as link:
            link.sendall(request)
            received = b""
            while len(received) < 1 << 20:
                part = link.recv(65536)
                if not part:
                    break
                received += part
        return received

    def test_an_endless_file_does_not_fill_anything(self):
        self.run_inside("mkdir t; truncate -s 8T t/big")
        self.assertEqual(self.call("GET", "/stat/t/big").json()["size"], 8 << 40)
        before = self.memory()
        for path in ("/files/t/big", "/archive/t", "/archive/t/big"):
            received = self.begin(path)
            self.assertTrue(received.startswith(b"HTTP/1.1 "), received[:100])
        answer = self.call("GET", "/files/t/big", headers={"Range": "bytes=-10"})
        self.assertEqual((answer.status, answer.body), (206, b"\0" * 10))
        answer = self.call("POST", "/tools/execute", {"tool": "file_read", "arguments": {"path": "t/big"}})
        self.assertIn(answer.status, (400, 413, 429), answer)
        self.assertLess(self.memory() - before, 128 << 20)
        self.assertEqual(self.run_inside("echo alive")["stdout"], "alive\n")

    def memory(self):
        return self.server.memory_peak()

    def test_a_bottomless_tree_is_answered(self):
        deep = "import os\nfor _ in range(5000):\n os.mkdir('d'); os.chdir('d')\nopen('f','w').write('x')"
        answer = self.call("POST", "/exec", {"argv": ["/usr/bin/python3", "-c", deep]})
        self.assertEqual(answer.json()["exit_code"], 0, answer)
        for path in ("/list/d?recursive=true", "/list/.?recursive=true", "/list/" + "/".join(["d"] * 1500)):
            self.assertLess(self.call("GET", path, timeout=60).status, 500)
        self.assertTrue(self.begin("/archive/d").startswith(b"HTTP/1.1 "))
        self.assertLess(self.call("DELETE", "/files/d?recursive=true", timeout=60).status, 500)
        self.run_inside("ln -s . loop; mkdir wide; cd wide; seq 20000 | xargs touch")
        self.assertIn(self.call("GET", "/list/.?recursive=true", timeout=60).status, (200, 413, 429))
        self.assertEqual(self.call("GET", "/list/" + "/".join(["loop"] * 60)).status // 100, 4)

    def test_a_folder_that_becomes_a_link_meanwhile(self):
        for target in (f"{self.prey}", f"/proc/1/root{self.prey}"):
            self.run_inside(f"rm -rf d l; mkdir d; echo inside >d/f; ln -s {target} l")
            process = self.call("POST", "/processes", {"argv": ["/usr/bin/python3", "-c", EXCHANGE]}).json()["id"]
            # It says so when it has begun.
            self.begin_output(process)
            statuses = self.hammer()
            self.assertGreater(statuses.get(200, 0), 0, statuses)
            self.assertEqual([status for status in statuses if status >= 500], [], statuses)
            self.assertTrue(self.call("GET", f"/processes/{process}").json()["running"])
            self.call("POST", f"/processes/{process}/signal", {"signal": "KILL", "tree": True})
            self.call("GET", f"/processes/{process}/wait?timeout_seconds=10")

    def begin_output(self, process):
        self.server.raw((f"GET /api/v1/sandboxes/{self.box}/processes/{process}/output HTTP/1.1\r\nHost: localhost\r\n"
                         f"Authorization: Bearer {self.token}\r\n\r\n").encode(), until=b"event: stdout")

    def hammer(self):
        """Reads, writes, lists and deletes through the name that changes, on one connection."""
        counts = {}
        root = f"/api/v1/sandboxes/{self.box}"
        work = (("GET", "/files/d/f", None), ("PUT", "/files/d/f", b"inside"), ("GET", "/list/d", None),
                ("PUT", "/files/d/g", b"inside"), ("DELETE", "/files/d/g", None), ("GET", "/archive/d", None),
                ("GET", "/stat/d/f", None), ("PUT", "/files/l/f", b"inside"))
        link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        for turn in range(SWAPS // 2):
            method, path, body = work[turn % len(work)]
            try:
                link.request(method, root + path, body, {"Authorization": f"Bearer {self.token}"})
                answer = link.getresponse()
                text = answer.read()
            except (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError):
                link.close()  # an answer that began and could not be finished: cut, never wrong
                continue
            self.assertNotIn(SECRET.encode(), text)
            counts[answer.status] = counts.get(answer.status, 0) + 1
        link.close()
        return counts


if __name__ == "__main__":
    live_server.main()

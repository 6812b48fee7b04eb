"""P36, the part about memory: a caller who asks for much and reads nothing, or sends much and never ends, holds a
bounded part of the server; the others are served meanwhile."""

import json
import re
import socket

import live_server
from live_server import Attack, wait_until

MIB = 1 << 20
CALLERS = 60  # slow ones at once: what each could hold, times this, would be gigabytes
BOXES, EXECS = 10, 4  # sandboxes and commands in each: 640 MiB of output
GROWTH_MAX = 256 * MIB  # of the whole server, whatever one tenant does: his part twice over, the rest to spare
RESIDUE_MAX = 64 * MIB  # afterwards


class Memory(Attack):
    flags = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.token = cls.server.new_token("greedy", "read", "use", "create")["token"]
        cls.other = cls.server.new_token("modest", "read", "use", "create")["token"]
        cls.box = cls.server.sandbox(cls.token, resource_limits={"memory_mb": 1024, "disk_files": 150_000})
        cls.quiet = cls.server.sandbox(cls.other)

    def setUp(self):
        self.links, self.peak = [], 0
        self.before = self.memory()

    def tearDown(self):
        for link in self.links:
            link.close()
        wait_until("everything is given back", lambda: self.held() == 0)
        wait_until("the kernel has it back", lambda: self.memory() - self.before < RESIDUE_MAX)
        print(f"(grew by {(self.peak - self.before) // MIB} MiB)", end=" ", flush=True)

    def memory(self):
        return int(self.server.status()["VmRSS"][0]) * 1024

    def forget_peak(self):
        with open(f"/proc/{self.server.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the kernel's own record of the most there was, from now on

    def is_there(self, box, name):
        return self.server.call("GET", f"/api/v1/sandboxes/{box}/stat/{name}", token=self.token).status == 200

    def held(self):
        text = self.server.call("GET", "/metrics", token=self.server.admin).text
        return int(re.search(r"^caisson_held_bytes (\d+)$", text, re.MULTILINE)[1])

    def slow(self, method, path, body=b"", length=None):
        """Sends a request and reads nothing."""
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(live_server.PATIENCE)
        link.connect(("127.0.0.1", self.server.port))
        self.links.append(link)
        fields = f"Host: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
        if body:
            fields += f"Content-Type: application/json\r\nContent-Length: {length or len(body)}\r\n"
        link.sendall(f"{method} {path} HTTP/1.1\r\n{fields}\r\n".encode())
        link.setblocking(False)
        return [link, memoryview(body)]

    def pour(self, pairs):
        """As much of the bodies as the server takes; true when nothing more goes."""
        moved = False
        for pair in pairs:
            while pair[1]:
                try:
                    pair[1] = pair[1][pair[0].send(pair[1][:65536]):]
                    moved = True
                except BlockingIOError:
                    break
                except (ConnectionResetError, BrokenPipeError):
                    pair[1] = memoryview(b"")
        return not moved

    def watch_others(self, until, what):
        """The peak of the server's memory while the other tenant works as ever."""
        peak = 0

        def look():
            nonlocal peak
            peak = max(peak, self.memory())
            done = self.server.run(self.other, self.quiet, "echo here")
            self.assertEqual(done["stdout"], "here\n")
            listed = self.server.call("GET", f"/api/v1/sandboxes/{self.quiet}/list/", token=self.other)
            self.assertEqual(listed.status, 200, listed)
            return until()

        wait_until(what, look, 60)
        self.assertLess(peak - self.before, GROWTH_MAX)
        self.peak = max(self.peak, peak)

    def answered(self):
        """Statuses of those that have an answer, without reading further."""
        found = []
        for link in self.links:
            try:
                found.append(link.recv(12, socket.MSG_PEEK)[9:12])
            except BlockingIOError:
                found.append(None)
            except ConnectionResetError:
                found.append(b"cut")
        return found

    def all_answered(self):
        return None not in self.answered()

    def test_long_lists(self):
        make = "import os; d='/workspace/'+'a'*100; os.makedirs(d, exist_ok=True)\n" \
               "for k in range(90000): open(d+'/'+str(k),'w').close()"
        self.server.call("PUT", f"/api/v1/sandboxes/{self.box}/files/make.py", make.encode(), self.token)
        self.assertEqual(self.server.run(self.token, self.box, "python3 make.py")["exit_code"], 0)
        path = f"/api/v1/sandboxes/{self.box}/list/?recursive=true"
        whole = self.server.call("GET", path, token=self.token)
        self.assertGreater(len(whole.json()["entries"]), 90_000)
        for _ in range(CALLERS):
            self.slow("GET", path)
        self.watch_others(self.all_answered, "each list has begun or is refused")
        found = self.answered()
        self.assertIn(b"200", found)
        self.assertIn(b"429", found)
        self.assertEqual(set(found), {b"200", b"429"})

    def test_long_outputs(self):
        command = "head -c 8388608 /dev/zero | tr '\\0' '\\1'"  # six bytes of JSON for each
        wish = json.dumps({"command": command, "output_bytes_max": 8 * MIB}).encode()
        tool = json.dumps({"tool": "shell_exec", "arguments": {"command": command}})
        pairs = [self.slow("POST", f"/api/v1/sandboxes/{self.box}/exec", wish) for _ in range(24)]
        pairs += [self.slow("POST", f"/api/v1/sandboxes/{self.box}/tools/execute", tool.encode()) for _ in range(24)]
        self.pour(pairs)
        self.watch_others(self.all_answered, "each command is answered")
        self.assertIn(b"200", self.answered())
        # Whose output had no room is told how much is missing.
        self.assertLess(self.held(), 160 * MIB)

    def test_long_outputs_that_end_together(self):
        """Commands in several sandboxes, each with both streams full, that all end at one word."""
        boxes = [self.server.sandbox(self.token, resource_limits={"memory_mb": 256}) for _ in range(BOXES)]
        for byte in ("1", "377"):  # a byte of text, and one that is three in JSON
            self.forget_peak()
            pairs = []
            for box in boxes:
                for index in range(EXECS):
                    command = (f"fill() {{ head -c 8388608 /dev/zero | tr '\\0' '\\{byte}'; }}; fill; fill >&2; "
                               f": > full{index}; until [ -e go ]; do sleep 0.05; done")
                    wish = json.dumps({"command": command, "output_bytes_max": 8 * MIB}).encode()
                    pairs.append(self.slow("POST", f"/api/v1/sandboxes/{box}/exec", wish))
            self.pour(pairs)
            for box in boxes:
                names = [f"full{index}" for index in range(EXECS)]
                wait_until("all is written", lambda box=box, names=names: all(self.is_there(box, n) for n in names))
            for box in boxes:
                # So small that it needs no room, when the others have taken all there is.
                put = self.server.call("PUT", f"/api/v1/sandboxes/{box}/files/go", b"!", self.token)
                self.assertEqual(put.status, 200, put)
            self.watch_others(self.all_answered, "each command is answered")
            self.assertEqual(set(self.answered()), {b"200"})
            self.assertLess(self.held(), 160 * MIB)
            self.peak = max(self.peak, self.server.memory_peak())
            self.assertLess(self.peak - self.before, GROWTH_MAX)
            for link in self.links:
                link.close()
            self.links.clear()
            wait_until("everything is given back", lambda: self.held() == 0)
            for box in boxes:
                self.server.run(self.token, box, "rm go full*")
        for box in boxes:
            self.server.call("DELETE", f"/api/v1/sandboxes/{box}", token=self.token)

    def test_bodies_without_an_end(self):
        body = b'{"name":"' + b"a" * (8 * MIB - 100)
        pairs = [self.slow("POST", "/api/v1/sandboxes", body, 8 * MIB) for _ in range(CALLERS)]
        self.watch_others(lambda: self.pour(pairs) and self.held() > 50 * MIB, "nothing more is taken")
        self.assertLessEqual(self.held(), 64 * MIB)
        self.watch_others(lambda: b"429" in self.answered(), "some are refused")

    def test_watches_of_long_names(self):
        deep = "/".join(["d" * 250] * 14)
        made = self.server.call("POST", f"/api/v1/sandboxes/{self.box}/mkdir", {"path": deep}, self.token)
        self.assertEqual(made.status, 201, made)
        for _ in range(CALLERS):
            self.slow("GET", f"/api/v1/sandboxes/{self.box}/watch/?recursive=true")
        self.watch_others(self.all_answered, "each watch stands")
        noise = f"cd {deep} && for i in $(seq 6000); do : > f$i; done"
        self.assertEqual(self.server.run(self.token, self.box, noise)["exit_code"], 0)
        self.watch_others(lambda: True, "the others")

    def test_downloads(self):
        self.server.run(self.token, self.box, "head -c 16777216 /dev/zero > zeros")
        for _ in range(200):
            self.slow("GET", f"/api/v1/sandboxes/{self.box}/files/zeros")
        self.watch_others(self.all_answered, "each download has begun or is refused")
        self.assertEqual(set(self.answered()), {b"200", b"429"})
        self.assertLessEqual(self.held(), 64 * MIB)


if __name__ == "__main__":
    live_server.main()

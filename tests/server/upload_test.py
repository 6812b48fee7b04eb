"""Files into a sandbox over HTTP: every size, both kinds of length, and all the ways in which it can end half-way."""

import contextlib
import hashlib
import os
import random
import select
import socket

from api_case import ApiCase
from harness import all_processes, main, path_of, read_proc, wait_for

MIB = 1 << 20
# Below, at and above the sizes at which something changes on the way.
SIZES = (0, 1, 4095, 65537, 128 * 1024 - 1, 128 * 1024, 256 * 1024 + 1, 50 * MIB)


def head(box, name, port, *fields):
    lines = [f"PUT {path_of(box, 'files', name)} HTTP/1.1", f"Host: 127.0.0.1:{port}", *fields, "", ""]
    return "\r\n".join(lines).encode()


class Upload(ApiCase):
    def shell(self, box, command):
        answer = self.server.post(path_of(box, "exec"), {"command": command})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["stdout"]

    def sum_inside(self, box, name):
        return self.shell(box, f"sha256sum < /workspace/{name}").split()[0]

    def everything(self, box):
        """Every name in the workspace, hidden ones too: an unfinished file has a hidden one."""
        return self.shell(box, "ls -A /workspace").split()

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        self.addCleanup(client.close)
        return client

    def begun(self, box, declared, fields=()):
        """A connection over which an upload has begun: its temporary file is there, and some of its bytes."""
        client = self.connect()
        client.sendall(head(box, "big", self.server.port, *fields, f"Content-Length: {declared}"))
        client.sendall(bytes(4 * MIB))
        wait_for(lambda: self.shell(box, "stat -c %s /workspace/.caisson-* 2>/dev/null || true").strip() not in ("", "0"),
                 "the first bytes inside")
        return client

    def send_until_answered(self, client, piece, times):
        """The answer of a server that does not want all of it: it comes while there is more to send."""
        for _ in range(times):
            if select.select([client], [], [], 0)[0]:
                break
            try:
                client.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break  # it has answered and closed; what it said is still to be read
        return client.recv(65536)

    def test_every_byte_of_every_size_arrives(self):
        box = self.create()
        for size in SIZES:
            with self.subTest(size=size):
                body = random.Random(size).randbytes(size)
                answer = self.server.put(path_of(box, "files/f"), body)
                self.assertEqual((answer.status, answer.json["size"]), (200, size), answer.body)
                self.assertEqual(self.sum_inside(box, "f"), hashlib.sha256(body).hexdigest())
                self.assertEqual(self.everything(box), ["f"])

    def test_a_body_of_unknown_length(self):
        box = self.create()
        body = random.Random(7).randbytes(5 * MIB + 3)
        pieces = [body[at : at + 99_991] for at in range(0, len(body), 99_991)]
        for chunks in (pieces, [b"short"], []):
            answer = self.server.put(path_of(box, "files/f"), iter(chunks))
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(self.sum_inside(box, "f"), hashlib.sha256(b"".join(chunks)).hexdigest())

    def test_a_large_one_goes_straight_to_the_process_that_writes_it(self):
        box = self.create()
        client = self.begun(box, 1 << 30)
        inputs = []
        for pid in all_processes():
            if f"/caisson-{box}".encode() in read_proc(pid, "cgroup"):
                with contextlib.suppress(OSError):
                    inputs.append(os.readlink(f"/proc/{pid}/fd/4"))
        self.assertEqual(sum(one.startswith("socket:") for one in inputs), 1, inputs)
        client.close()

    def test_the_next_request_on_the_same_connection(self):
        box = self.create()
        client = self.connect()
        body = random.Random(8).randbytes(MIB + 1)
        request = head(box, "f", self.server.port, f"Content-Length: {len(body)}") + body
        client.sendall(request + b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answers = b"".join(iter(lambda: client.recv(65536), b""))
        self.assertEqual(answers.count(b"HTTP/1.1 "), 2, answers)
        self.assertTrue(answers.startswith(b"HTTP/1.1 200"), answers)
        self.assertEqual(self.sum_inside(box, "f"), hashlib.sha256(body).hexdigest())

    def test_a_client_that_leaves_half_way_leaves_nothing(self):
        box = self.create()
        self.server.put(path_of(box, "files/big"), b"before")
        client = self.begun(box, 1 << 30)
        client.close()
        wait_for(lambda: self.everything(box) == ["big"], "the temporary file to go")
        self.assertEqual(self.shell(box, "cat /workspace/big"), "before")

    def test_a_chunked_body_that_breaks_off_leaves_nothing(self):
        box = self.create()
        client = self.connect()
        client.sendall(head(box, "big", self.server.port, "Transfer-Encoding: chunked"))
        client.sendall(b"400000\r\n" + bytes(4 * MIB) + b"\r\n")
        wait_for(lambda: self.everything(box), "the temporary file")
        client.close()
        wait_for(lambda: not self.everything(box), "the temporary file to go")

    def test_a_sandbox_that_is_destroyed_half_way(self):
        box = self.server.create()
        client = self.begun(box, 1 << 30)
        self.assertEqual(self.server.delete(path_of(box)).status, 204)
        answer = self.send_until_answered(client, bytes(MIB), 64)
        self.assertRegex(answer, rb"^HTTP/1.1 (404|410) ")
        self.assertEqual(self.server.get("/healthz").status, 200)

    def test_a_full_disk_half_way_is_said_and_leaves_nothing(self):
        box = self.create(resource_limits={"disk_mb": 16, "memory_mb": 256})
        chunk = b"100000\r\n" + bytes(MIB) + b"\r\n"
        for length, piece in ((f"Content-Length: {64 * MIB}", bytes(MIB)), ("Transfer-Encoding: chunked", chunk)):
            client = self.connect()
            client.sendall(head(box, "f", self.server.port, length))
            answer = self.send_until_answered(client, piece, 64)
            self.assertIn(b'"Exhausted"', answer)
            self.assertEqual(self.everything(box), [])
        self.assertEqual(self.server.put(path_of(box, "files/f"), bytes(8 * MIB)).status, 200)

    def test_many_at_once_take_turns(self):
        box = self.create(resource_limits={"disk_mb": 256, "memory_mb": 1024})
        clients = []
        body = random.Random(9).randbytes(MIB)
        for number in range(24):  # more than may have a way of their own
            client = self.connect()
            client.sendall(head(box, f"f{number}", self.server.port, f"Content-Length: {len(body)}", "Connection: close"))
            client.sendall(body[: MIB // 2])
            clients.append(client)
        for client in clients:
            client.sendall(body[MIB // 2 :])
        for client in clients:
            answer = b"".join(iter(lambda one=client: one.recv(65536), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        sums = set(self.shell(box, "sha256sum /workspace/* | cut -d' ' -f1").split())
        self.assertEqual(sums, {hashlib.sha256(body).hexdigest()})
        self.assertEqual(len(self.everything(box)), 24)


if __name__ == "__main__":
    main()

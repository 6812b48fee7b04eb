"""What goes on while it is watched: commands, processes, terminals, files, ports, events. And who may do what."""

import base64
import io
import re
import tarfile
import unittest

from api_case import ApiCase
from harness import Server, bytes_of, main, path_of, wait_for
from websocket import Refused, WebSocket

OCTETS = {"Content-Type": "application/octet-stream"}
EVERY_BYTE = bytes(range(256))
# A server inside that answers with the fields it was sent.
ECHO = """
import http.server

class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(self.headers).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "a=b")
        self.end_headers()
        self.wfile.write(body)

http.server.HTTPServer(("127.0.0.1", 9000), Echo).serve_forever()
"""

# Answers with the bytes it was sent, backwards, and says what it saw.
MIRROR = """
import http.server

class Mirror(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole
    def do_POST(self):
        body = self.body()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Seen", f"{self.command} {self.path} {len(body)}")
        self.end_headers()
        self.wfile.write(body[::-1])
    do_PUT = do_PATCH = do_DELETE = do_POST

http.server.HTTPServer(("127.0.0.1", 9001), Mirror).serve_forever()
"""
# RFC 6455 by hand: one connection at a time, binary messages come back backwards, text as it is.
SOCKET_ECHO = """
import base64, hashlib, json, socket, struct

def serve(link):
    stream = link.makefile("rb")
    path = stream.readline().split()[1].decode()
    fields = {}
    while (line := stream.readline().decode().strip()):
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    link.sendall(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                  f"Sec-WebSocket-Accept: {accept}\\r\\n\\r\\n").encode())
    def send(opcode, data):
        size = len(data)
        head = bytes([0x80 | opcode])
        head += bytes([size]) if size < 126 else struct.pack("!BH", 126, size) if size < 65536 \\
            else struct.pack("!BQ", 127, size)
        link.sendall(head + data)
    send(1, json.dumps({"path": path}).encode())
    while len(head := stream.read(2)) == 2:
        size = head[1] & 127
        if size == 126:
            size = struct.unpack("!H", stream.read(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", stream.read(8))[0]
        mask = stream.read(4)
        data = bytes(one ^ mask[at % 4] for at, one in enumerate(stream.read(size)))
        if head[0] & 15 == 8:
            return
        send(head[0] & 15, data if head[0] & 15 == 1 else data[::-1])

listener = socket.create_server(("127.0.0.1", 9002))
while True:
    link, _ = listener.accept()
    with link:
        try:
            serve(link)
        except (OSError, KeyError, IndexError):
            pass
"""

# Begins an answer and then says nothing more.
SILENT = """
import socket

listener = socket.create_server(("127.0.0.1", 9003))
kept = []
while True:
    link, _ = listener.accept()
    kept.append(link)
    link.recv(65536)
    link.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\n\\r\\none")
"""
ORDERS = "\\r\\nX-Accel-Redirect: /internal/a\\r\\nx-accel-expires: 9\\r\\nX-Sendfile: /etc/shadow\\r\\nX-Own: 1"
ORDERS += "\\r\\nContent-Length: 0\\r\\n\\r\\n"


def payload(messages, stream=1):
    return b"".join(message[1:] for message in messages if message[0] == stream)


class Commands(ApiCase):
    def test_collected(self):
        box = self.create()
        wish = {"argv": ["cat"], "stdin": base64.b64encode(EVERY_BYTE).decode(), "stdin_encoding": "base64",
                "encoding": "base64"}
        done = self.server.post(path_of(box, "exec"), wish).json
        self.assertEqual(base64.b64decode(done["stdout"]), EVERY_BYTE)
        wish = {"command": "yes | head -c 300000", "output_bytes_max": 5000}
        self.assertEqual(self.server.post(path_of(box, "exec"), wish).json["stdout_lost_bytes"], 295000)
        self.refused(self.server.post(path_of(box, "exec"), {"command": "x", "argv": ["x"]}), 400, "InvalidArgument")

    def test_as_events(self):
        box = self.create()
        wish = {"command": "cat; echo err >&2; exit 5", "stdin": "given"}
        with self.server.events("POST", path_of(box, "exec"), wish, {"Accept": "text/event-stream"}) as events:
            self.assertEqual(next(events).name, "start")
            seen, end = events.until("exit")
        self.assertEqual((bytes_of(seen), bytes_of(seen, "stderr")), (b"given", b"err\n"))
        self.assertEqual(end.data["exit_code"], 5)

    def test_one_that_ended_by_itself_was_killed_by_nobody(self):
        box = self.create()
        with self.server.events("POST", path_of(box, "exec", stream="sse"), {"command": "true"}) as events:
            events.until("exit")
        wait_for(lambda: not self.server.get(path_of(box, "processes")).json["processes"], "its record is gone")
        rows = self.server.get(f"/api/v1/audit?sandbox={box}").json["rows"]
        self.assertIn("process.start", [row["action"] for row in rows])
        self.assertNotIn("process.signal", [row["action"] for row in rows])

    def count_inside(self, box, name):
        listed = self.server.post(path_of(box, "exec"), {"command": "cat /proc/[0-9]*/comm"}).json
        return listed["stdout"].split().count(name)

    def test_hanging_up_kills_the_tree(self):
        box = self.create()
        command = "(setsid sleep 4321 &) ; sleep 4321 & echo up; wait"
        with self.server.events("POST", path_of(box, "exec", stream="sse"), {"command": command}) as events:
            next(events)
            self.assertEqual(bytes_of([next(events)]), b"up\n")
            wait_for(lambda: self.count_inside(box, "sleep") == 2, "both of them")
        wait_for(lambda: self.count_inside(box, "sleep") == 0, "the end of the tree")
        with WebSocket(self.server, path_of(box, "exec")) as socket:
            socket.send({"command": command})
            socket.until("start")
            self.assertEqual(socket.read(), b"\x01up\n")
        wait_for(lambda: self.count_inside(box, "sleep") == 0, "the end of the tree")

    def test_by_websocket(self):
        box = self.create()
        with WebSocket(self.server, path_of(box, "exec")) as socket:
            socket.send({"command": "cat; echo err >&2; exit 7"})
            self.assertEqual(socket.until("start")[0], [])
            big = EVERY_BYTE * 1000
            for at in range(0, len(big), 50000):
                socket.send(b"\0" + big[at : at + 50000])
            socket.send({"type": "close_stdin"})
            seen, end = socket.until("exit")
            self.assertIsNone(socket.read())
        self.assertEqual(payload(seen), big)
        self.assertEqual(payload(seen, 2), b"err\n")
        self.assertEqual(end["exit_code"], 7)

    def test_a_signal_by_websocket(self):
        box = self.create()
        with WebSocket(self.server, path_of(box, "exec")) as socket:
            socket.send({"command": "trap 'echo caught; exit 9' USR1; echo up; while :; do sleep 0.01; done"})
            socket.until("start")
            self.assertEqual(socket.read(), b"\x01up\n")
            socket.send({"type": "signal", "signal": "USR1"})
            seen, end = socket.until("exit")
        self.assertEqual((payload(seen), end["exit_code"]), (b"caught\n", 9))

    def test_bad_beginnings(self):
        box = self.create(tools=["file_read"])
        with self.assertRaises(Refused) as refused:
            WebSocket(self.server, path_of("a" * 26, "exec"))
        self.assertEqual(refused.exception.status, 404)
        with self.assertRaises(Refused) as refused:
            WebSocket(self.server, path_of(box, "exec"), {"Origin": "http://evil.example"})
        self.assertEqual(refused.exception.status, 403)
        self.assertEqual(self.server.get(path_of(box, "exec")).status, 426)
        for first in (b"\0bytes", {"command": ""}, {"colour": 1}, {"command": "rm -rf /"}):
            with WebSocket(self.server, path_of(box, "exec")) as socket:
                socket.send(first)
                _, error = socket.until("error")
                self.assertIn(error["error"]["code"], ("InvalidArgument", "Denied"), first)


class Processes(ApiCase):
    def start(self, box, command, **more):
        answer = self.server.post(path_of(box, "processes"), {"command": command} | more)
        self.assertEqual(answer.status, 201, answer.body)
        return path_of(box, "processes", answer.json["id"])

    def test_two_readers_from_any_offset(self):
        box = self.create()
        process = self.start(box, "echo one; echo oops >&2; read x; echo two")
        with self.server.events("GET", process + "/output") as first:
            seen = [next(first), next(first)]
            self.assertEqual((bytes_of(seen), bytes_of(seen, "stderr")), (b"one\n", b"oops\n"))
            with self.server.events("GET", process + "/output?stdout_offset=2") as second:
                self.assertEqual(self.server.post(process + "/input", b"go\n", headers=OCTETS).status, 204)
                rest, end = first.until("exit")
                self.assertEqual(bytes_of(rest), b"two\n")
                self.assertEqual(bytes_of(second.until("exit")[0]), b"e\ntwo\n")
        self.assertEqual(end.id, "8-5")
        with self.server.events("GET", process + "/output", headers={"Last-Event-ID": "4-5"}) as again:
            self.assertEqual(bytes_of(again.until("exit")[0]), b"two\n")

    def test_input_close_wait_forget(self):
        box = self.create()
        process = self.start(box, "cat; exit 4")
        self.assertTrue(self.server.get(process + "/wait?timeout_seconds=0").json["running"])
        self.server.post(process + "/input", EVERY_BYTE, headers=OCTETS)
        self.server.post(process + "/input?close=true", b"", headers=OCTETS)
        done = self.server.get(process + "/wait?timeout_seconds=30").json
        self.assertEqual((done["running"], done["exit_code"]), (False, 4))
        self.assertEqual(done["stdout"], {"begin": 0, "end": 256})
        with self.server.events("GET", process + "/output") as events:
            self.assertEqual(bytes_of(events.until("exit")[0]), EVERY_BYTE)
        self.assertEqual(self.server.delete(process).status, 204)
        self.refused(self.server.get(process), 404, "NotFound")

    def test_signal_and_list(self):
        box = self.create()
        process = self.start(box, "sleep 1000")
        listed = self.server.get(path_of(box, "processes")).json["processes"]
        self.assertEqual([(one["command"], one["running"]) for one in listed], [("sleep 1000", True)])
        self.refused(self.server.post(process + "/signal", {"signal": "NOSUCH"}), 400, "InvalidArgument", "signal")
        self.assertEqual(self.server.post(process + "/signal", {"signal": "TERM", "tree": True}).status, 204)
        done = self.server.get(process + "/wait").json
        self.assertEqual((done["exit_code"], done["signal"]), (143, 15))

    def test_a_ring_forgets_its_oldest_bytes(self):
        box = self.create()
        process = self.start(box, "head -c 20000000 /dev/zero; echo; echo last")
        done = self.server.get(process + "/wait").json
        self.assertEqual(done["stdout"]["end"], 20000006)
        self.assertGreater(done["stdout"]["begin"], 0)
        with self.server.events("GET", process + "/output") as events:
            seen, _ = events.until("exit")
        self.assertTrue(bytes_of(seen).endswith(b"\nlast\n"))
        lost = sum(event.data["lost"] for event in seen)
        self.assertEqual(lost + len(bytes_of(seen)), 20000006)

    def test_terminal(self):
        box = self.create()
        path = path_of(box, "terminal", rows=10, cols=20, command="stty size; exec sh -i")
        with WebSocket(self.server, path) as socket:
            _, start = socket.until("start")
            shown = b""
            while b"10 20" not in shown:
                shown += socket.read()
            socket.send({"type": "resize", "rows": 33, "cols": 99})
            socket.send(b"stty size; tty; echo $TERM\n")
            while b"xterm-256color" not in shown:
                shown += socket.read()
            self.assertIn(b"33 99", shown)
            self.assertIn(b"/dev/pts/", shown)
        # The terminal outlives its caller.
        process = path_of(box, "processes", start["process"])
        self.assertTrue(self.server.get(process).json["running"])
        self.assertEqual(self.server.post(process + "/resize", {"rows": 5, "cols": 6}).status, 204)
        with WebSocket(self.server, path_of(box, "terminal", process=start["process"])) as socket:
            socket.until("start")
            socket.send(b"stty size; exit 6\n")
            seen, end = socket.until("exit")
        self.assertIn(b"5 6", b"".join(seen))
        self.assertEqual(end["exit_code"], 6)


class Files(ApiCase):
    def test_conditions_and_ranges(self):
        box = self.create()
        path = path_of(box, "files/data.txt")
        first = self.server.put(path + "?mode=0640", b"0123456789", headers={"If-None-Match": "*"})
        self.assertEqual(first.status, 200, first.body)
        etag = first.headers["ETag"]
        self.assertEqual(self.server.put(path, b"x", headers={"If-None-Match": "*"}).status, 412)
        self.assertEqual(self.server.put(path, b"x", headers={"If-Match": '"other"'}).status, 412)
        self.assertEqual(self.server.get(path, headers={"If-None-Match": etag}).status, 304)
        part = self.server.get(path, headers={"Range": "bytes=2-4"})
        self.assertEqual((part.status, part.body, part.headers["Content-Range"]), (206, b"234", "bytes 2-4/10"))
        self.assertEqual(self.server.get(path, headers={"Range": "bytes=-3"}).body, b"789")
        self.assertEqual(self.server.get(path, headers={"Range": "bytes=50-"}).status, 416)
        whole = self.server.get(path, headers={"Range": "bytes=2-4", "If-Range": '"other"'})
        self.assertEqual((whole.status, whole.body), (200, b"0123456789"))
        head = self.server.request("HEAD", path)
        self.assertEqual((head.status, head.headers["Content-Length"], head.headers["ETag"]), (200, "10", etag))
        self.assertEqual(self.server.get(path_of(box, "stat/data.txt")).json["mode"], "0640")
        second = self.server.put(path, b"new", headers={"If-Match": etag})
        self.assertEqual(second.status, 200)
        self.assertNotEqual(second.headers["ETag"], etag)
        self.assertEqual(self.server.get(path).body, b"new")

    def test_folders(self):
        box = self.create()
        self.assertEqual(self.server.post(path_of(box, "mkdir"), {"path": "a/b"}).status, 201)
        self.server.put(path_of(box, "files/a/b/f"), b"1")
        moved = self.server.post(path_of(box, "move"), {"from": "a/b/f", "to": "a/g"})
        self.assertEqual(moved.status, 200, moved.body)
        names = {one["name"] for one in self.server.get(path_of(box, "list/a")).json["entries"]}
        self.assertEqual(names, {"b", "g"})
        self.server.put(path_of(box, "files/h"), b"2")
        self.refused(self.server.post(path_of(box, "move"), {"from": "h", "to": "a/g"}), 409, "AlreadyExists")
        self.assertGreaterEqual(self.server.delete(path_of(box, "files/a")).status, 400)
        removed = self.server.delete(path_of(box, "files/a", recursive="true"))
        self.assertEqual((removed.status, removed.json["removed"]), (200, 3))

    def test_programs_move_and_link_between_folders(self):
        box = self.create()
        for folder in ("/workspace", "/tmp", "/run"):
            command = (f"cd {folder} && mkdir a b && echo x > a/f && "
                       "python3 -c 'import os; os.rename(\"a/f\", \"b/g\"); os.link(\"b/g\", \"a/h\")' && cat a/h")
            done = self.server.post(path_of(box, "exec"), {"command": command}).json
            self.assertEqual((done["stdout"], done["exit_code"]), ("x\n", 0), (folder, done))

    def test_watch(self):
        box = self.create()
        with self.server.events("GET", path_of(box, "watch//workspace", recursive="true")) as events:
            self.assertEqual(next(events).name, "ready")
            self.server.post(path_of(box, "exec"), {"command": "mkdir sub; mv sub dub; rmdir dub"})
            seen = []
            while not any("removed" in change["changes"] for change in seen):
                seen.append(next(events).data)
        kinds = [kind for change in seen for kind in change["changes"]]
        self.assertEqual(kinds, ["created", "moved_from", "moved_to", "removed"], seen)
        self.assertEqual(seen[1]["cookie"], seen[2]["cookie"])

    def test_without_a_path_it_is_the_workspace(self):
        box = self.create(files={"one.txt": "1"})
        self.assertEqual([one["name"] for one in self.server.get(path_of(box, "list/")).json["entries"]], ["one.txt"])
        kind = {"Content-Type": "application/x-tar"}
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("two.txt"))
        self.assertEqual(self.server.put(path_of(box, "archive/"), data.getvalue(), headers=kind).status, 200)
        back = self.server.get(path_of(box, "archive/"))
        self.assertEqual(back.status, 200, back.body)
        self.assertIn("workspace.tar", back.headers["Content-Disposition"])
        with tarfile.open(fileobj=io.BytesIO(back.body)) as tar:
            names = {one.name.rsplit("/", 1)[-1] for one in tar if one.isfile()}
        self.assertEqual(names, {"one.txt", "two.txt"})
        with self.server.events("GET", path_of(box, "watch/")) as changes:
            self.assertEqual(next(changes).name, "ready")
            self.server.put(path_of(box, "files/three.txt"), b"3")
            self.assertTrue(any("three.txt" in str(change.data) for change in changes))

    def test_archives(self):
        box = self.create()
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for name, content in (("one.txt", b"1"), ("sub/two.bin", EVERY_BYTE * 300)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        kind = {"Content-Type": "application/x-tar"}
        unpacked = self.server.put(path_of(box, "archive/in"), data.getvalue(), headers=kind)
        self.assertEqual(unpacked.status, 200, unpacked.body)
        back = self.server.get(path_of(box, "archive/in"))
        with tarfile.open(fileobj=io.BytesIO(back.body)) as tar:
            files = {one.name.removeprefix("./"): tar.extractfile(one).read() for one in tar if one.isfile()}
        self.assertEqual({name.removeprefix("in/") for name in files}, {"one.txt", "sub/two.bin"})
        self.assertIn(EVERY_BYTE * 300, files.values())
        for name in ("../out", "/etc/x", "a/../../b"):
            data = io.BytesIO()
            with tarfile.open(fileobj=data, mode="w") as tar:
                tar.addfile(tarfile.TarInfo(name))
            answer = self.server.put(path_of(box, "archive/in"), data.getvalue(), headers=kind)
            self.refused(answer, 403, "Denied")


class Ports(ApiCase):
    def test_a_web_server_inside(self):
        box = self.create(files={"site/index.html": "<p>hello</p>", "site/a b.txt": "space"})
        command = "exec python3 -m http.server -d site -b 127.0.0.1 8000"
        self.server.post(path_of(box, "processes"), {"command": command})
        port = path_of(box, "ports/8000")
        page = wait_for(lambda: [one for one in [self.server.get(port + "/")] if one.status == 200], "the port")[0]
        self.assertEqual(page.body, b"<p>hello</p>")
        self.assertIn("sandbox", page.headers.get("Content-Security-Policy", ""))
        self.assertEqual(self.server.get(port + "/a%20b.txt?x=1").body, b"space")
        self.assertEqual(self.server.get(port + "/missing").status, 404)
        self.assertEqual(self.server.request("HEAD", port + "/").headers["Content-Length"], "12")
        self.assertEqual(self.server.post(port + "/", b"x", headers=OCTETS).status, 501)
        self.refused(self.server.get(path_of(box, "ports/8001/")), 502, "Protocol", "port")

    def test_bodies_both_ways(self):
        box = self.create(files={"mirror.py": MIRROR})
        self.server.post(path_of(box, "processes"), {"command": "exec python3 mirror.py"})
        port = path_of(box, "ports/9001/any/path?q=1")
        body = EVERY_BYTE * 4096  # more than one piece, and no text
        wait_for(lambda: self.server.post(port, b"x", headers=OCTETS).status == 200, "the port")
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            answer = self.server.request(method, port, body, headers=OCTETS)
            self.assertEqual((answer.status, answer.headers["X-Seen"]), (200, f"{method} /any/path?q=1 {len(body)}"))
            self.assertEqual(answer.body, body[::-1])
        chunks = (EVERY_BYTE for _ in range(1000))  # of unknown length, so Python's client sends them chunked
        answer = self.server.request("POST", port, chunks, headers=OCTETS)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.body, (EVERY_BYTE * 1000)[::-1])

    def test_a_websocket_inside(self):
        box = self.create(files={"socket_echo.py": SOCKET_ECHO})
        path = path_of(box, "ports/9002/chat?room=1")
        with self.assertRaises(Refused) as nobody:
            WebSocket(self.server, path)
        self.assertEqual(nobody.exception.status, 502)
        self.server.post(path_of(box, "processes"), {"command": "exec python3 socket_echo.py"})

        def connect():
            try:
                return WebSocket(self.server, path)
            except Refused as refusal:
                self.assertEqual(refusal.status, 502)
                return None

        with wait_for(connect, "the program inside") as link:
            self.assertEqual(link.read(), {"path": "/chat?room=1"})
            for message in (b"", b"small", EVERY_BYTE * 1000, b"z" * 65536):
                link.send(message)
                self.assertEqual(link.read(), message[::-1])
            link.send({"text": "too"})
            self.assertEqual(link.read(), {"text": "too"})
        # The program serves one after the other: it saw that the first one left.
        with wait_for(connect, "the second one") as link:
            self.assertEqual(link.read(), {"path": "/chat?room=1"})

    def test_credentials_do_not_pass(self):
        box = self.create(files={"echo.py": ECHO})
        self.server.post(path_of(box, "processes"), {"command": "exec python3 echo.py"})
        secret = {"Authorization": "Bearer cais_secret", "X-API-Key": "cais_secret", "Cookie": "c=secret"}
        secret["X-Mine"] = "yes"
        port = path_of(box, "ports/9000/")
        page = wait_for(lambda: [one for one in [self.server.get(port, headers=secret)] if one.status == 200], "it")[0]
        self.assertNotIn(b"secret", page.body)
        self.assertIn(b"X-Mine: yes", page.body)
        self.assertIsNone(page.headers["Set-Cookie"])

    def streams(self):
        found = re.search(r"^caisson_streams_open (\d+)", self.server.get("/metrics").body.decode(), re.MULTILINE)
        return int(found[1])

    def test_who_leaves_a_silent_program_leaves_nothing(self):
        """It has begun an answer and says no more: nothing but the client's leaving ends the call."""
        box = self.create(files={"silent.py": SILENT})
        self.server.post(path_of(box, "processes"), {"command": "exec python3 silent.py"})
        port = path_of(box, "ports/9003/")

        def begun():
            connection, answer = self.server.open("GET", port)
            if answer.status != 200:
                connection.close()
                return None
            self.assertEqual(answer.read1(3), b"one")
            return connection, answer

        held = [wait_for(begun, "the program inside") for _ in range(8)]
        self.assertEqual(self.streams(), 8)
        for connection, answer in held:
            answer.close()
            connection.close()
        wait_for(lambda: self.streams() == 0, "the end of the calls")

    def test_a_proxy_in_front_gets_no_orders(self):
        box = self.create(files={"silent.py": SILENT.replace("\\r\\n\\r\\none", ORDERS)})
        self.server.post(path_of(box, "processes"), {"command": "exec python3 silent.py"})
        port = path_of(box, "ports/9003/")
        page = wait_for(lambda: [one for one in [self.server.get(port)] if one.status == 200], "the program")[0]
        self.assertEqual(page.headers["X-Own"], "1")
        for name in ("X-Accel-Redirect", "X-Accel-Expires", "X-Sendfile"):
            self.assertIsNone(page.headers[name])


class Happenings(ApiCase):
    def test_events_can_be_taken_up_again(self):
        box = self.create(name="seen")
        self.server.post(path_of(box, "pause"))
        self.server.post(path_of(box, "resume"))
        with self.server.events("GET", f"/api/v1/events?sandbox={box}") as events:
            first = [next(events), next(events), next(events)]
        self.assertEqual([event.name for event in first], ["sandbox.created", "sandbox.paused", "sandbox.resumed"])
        self.server.delete(path_of(box))
        with self.server.events("GET", "/api/v1/events", headers={"Last-Event-ID": first[2].id}) as events:
            event = next(events)
        self.assertEqual((event.name, event.data["sandbox"]), ("sandbox.ended", box))

    def test_pause_stops_time_inside(self):
        box = self.create()
        command = "touch /tmp/up; while :; do :; done"
        self.server.post(path_of(box, "processes"), {"command": command})
        wait_for(lambda: self.server.get(path_of(box, "stat//tmp/up")).status == 200, "the command")
        self.assertEqual(self.server.post(path_of(box, "pause")).json["state"], "paused")
        self.assertEqual(self.server.get(path_of(box)).json["state"], "paused")
        before = self.server.get(path_of(box, "usage")).json["cpu_seconds"]
        self.refused(self.server.post(path_of(box, "exec"), {"command": "true"}), 409, "Busy")
        self.assertEqual(self.server.get(path_of(box, "usage")).json["cpu_seconds"], before)
        self.assertEqual(self.server.post(path_of(box, "resume")).json["state"], "running")
        wait_for(lambda: self.server.get(path_of(box, "usage")).json["cpu_seconds"] > before, "time to go on")

    def test_limits_and_usage(self):
        box = self.create(resource_limits={"memory_mb": 64, "processes": 30})
        eat = {"command": "head -c 100000000 /dev/zero | tail -c 90000000 | wc -c"}
        small = self.server.post(path_of(box, "exec"), eat).json
        self.assertNotEqual(small["stdout"], "90000000\n")
        changed = self.server.request("PATCH", path_of(box, "limits"), {"memory_mb": 300})
        self.assertEqual((changed.status, changed.json["resource_limits"]["memory_mb"]), (200, 300), changed.body)
        self.assertEqual(self.server.post(path_of(box, "exec"), eat).json["stdout"], "90000000\n")
        usage = self.server.get(path_of(box, "usage")).json
        self.assertGreaterEqual(usage["memory_peak_bytes"], 90000000)
        self.assertEqual(usage["execs"], 2)
        answer = self.server.request("PATCH", path_of(box, "limits"), {"disk_mb": 999})
        self.assertGreaterEqual(answer.status, 400)
        self.assertIn("disk_mb", answer.json["error"]["message"])

    def test_audit(self):
        box = self.create()
        self.server.post(path_of(box, "exec"), {"command": "rm -rf /"})
        rows = self.server.get(f"/api/v1/audit?sandbox={box}&outcome=denied").json["rows"]
        self.assertEqual([row["object"] for row in rows], ["rm -rf /"])
        newest = self.server.get("/api/v1/audit?before=9007199254740991&limit=2").json["rows"]
        self.assertEqual(newest[0]["sequence"], newest[1]["sequence"] + 1)
        self.assertEqual(newest[0]["previous"], newest[1]["hash"])
        verdict = self.server.get("/api/v1/audit/verify").json
        self.assertEqual((verdict["intact"], verdict["bad_row"]), (True, None))
        self.assertIn("caisson_http_connections_total", self.server.get("/metrics").body.decode())


class Tokens(unittest.TestCase):
    def test_scopes_tenants_and_revocation(self):
        with Server() as server:
            def token(**wish):
                answer = server.post("/api/v1/tokens", wish)
                self.assertEqual(answer.status, 201, answer.body)
                return answer.json

            reader, user = token(scopes=["read"]), token(scopes=["read", "use"])
            maker = token(scopes=["read", "use", "create"], max_sandboxes=1, label="ci")
            other = token(scopes=["read", "use", "create"], tenant="other")
            box = server.post("/api/v1/sandboxes", {}, token=maker["token"]).json["id"]
            server.ids.add(box)
            run = {"command": "true"}
            self.assertEqual(server.get(path_of(box), token=reader["token"]).status, 200)
            self.assertEqual(server.post(path_of(box, "exec"), run, token=reader["token"]).status, 403)
            self.assertEqual(server.post(path_of(box, "exec"), run, token=user["token"]).status, 200)
            self.assertEqual(server.post("/api/v1/sandboxes", {}, token=user["token"]).status, 403)
            self.assertEqual(server.post("/api/v1/sandboxes", {}, token=maker["token"]).status, 429)
            for path in ("/api/v1/tokens", "/api/v1/audit/verify", "/metrics"):
                self.assertEqual(server.get(path, token=maker["token"]).status, 403, path)
            # Another tenant's sandbox does not exist.
            for method, rest in (("GET", ""), ("DELETE", ""), ("GET", "/usage"), ("GET", "/files/x")):
                self.assertEqual(server.request(method, path_of(box) + rest, token=other["token"]).status, 404)
            self.assertEqual(server.get("/api/v1/sandboxes", token=other["token"]).json, {"sandboxes": []})
            rows = server.get("/api/v1/audit", token=other["token"]).json["rows"]
            self.assertEqual([row for row in rows if row["action"] != "login"], [])  # its own first use is its own
            listed = server.get("/api/v1/tokens").json["tokens"]
            self.assertIn(maker["id"], [one["id"] for one in listed])
            for secret in (maker["token"], server.token):
                self.assertNotIn(secret.encode(), server.get("/api/v1/tokens").body)
            self.assertEqual(server.delete(f"/api/v1/tokens/{maker['id']}").status, 204)
            self.assertEqual(server.get("/api/v1/sandboxes", token=maker["token"]).status, 401)
            brief = token(scopes=["read"], expires_seconds=0.2)["token"]
            wait_for(lambda: server.get("/api/v1/sandboxes", token=brief).status == 401, "its last day")
            # A browser cannot set Authorization on a WebSocket.
            offer = {"Authorization": None, "Sec-WebSocket-Protocol": f"caisson, caisson.token.{user['token']}"}
            with WebSocket(server, path_of(box, "exec"), offer) as socket:
                self.assertEqual(socket.headers["sec-websocket-protocol"], "caisson")
                socket.send({"command": "echo hi"})
                socket.until("start")
                self.assertEqual(payload(socket.until("exit")[0]), b"hi\n")
            with self.assertRaises(Refused) as refused:
                WebSocket(server, path_of(box, "exec"), {"Authorization": None})
            self.assertEqual(refused.exception.status, 401)


if __name__ == "__main__":
    main()

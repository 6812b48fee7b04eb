"""The program inside: a web site that shows what it was sent, and tries what a hostile one would try.

Runs in the sandbox with its port as the only word.
"""

import base64
import hashlib
import http.server
import json
import struct
import sys
import threading

PORT = int(sys.argv[1])
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
NEXT = threading.Semaphore(0)  # one permit for each event that may be sent
COOKIES = ("mine=1; Path=/", "wide=1; Domain=box.test; Path=/", "second=2; HttpOnly",
           "__Host-caisson-preview=forged; Secure; Path=/", "caisson-preview=forged",
           "=caisson-preview=forged", "__Secure-caisson-preview=forged; Secure")


class Site(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, kind="application/json", status=200, fields=()):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def seen(self):
        return {"line": self.requestline, "fields": list(self.headers.items())}

    def events(self):
        """One at once; each of the others when somebody has asked for /next."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            if number > 0:
                NEXT.acquire()
            event = f"data: {number}\n\n".encode()
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def large(self):
        size = int(self.path.rpartition("=")[2])
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        piece = bytes(range(256)) * 4096
        while size > 0:
            self.wfile.write(piece[:size])
            size -= len(piece[:size])

    def socket(self):
        """Echoes frames until the client leaves."""
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + GUID).encode()).digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        self.close_connection = True
        self.frame(json.dumps(self.seen()).encode())
        while len(head := self.rfile.read(2)) == 2:
            size = head[1] & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self.rfile.read(2))
            mask = self.rfile.read(4)
            self.frame(bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(size))))

    def frame(self, payload):
        head = bytes([0x81, len(payload)]) if len(payload) < 126 else struct.pack("!BBH", 0x81, 126, len(payload))
        self.wfile.write(head + payload)

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/ws":
            self.socket()
        elif path == "/events":
            self.events()
        elif path == "/next":
            NEXT.release()
            self.answer("ok")
        elif path == "/large":
            self.large()
        elif path == "/cookies":
            fields = [("Set-Cookie", one) for one in COOKIES]
            self.answer("ok", fields=[*fields, ("Clear-Site-Data", '"cookies"'), ("X-Accel-Redirect", "/x")])
        elif path == "/away":
            self.answer("ok", status=302, fields=[("Location", f"http://127.0.0.1:{PORT}/there?x=1")])
        elif path == "/smuggle":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4"
                             b"\r\n\r\nevil")
            self.close_connection = True
        else:
            self.answer(self.seen())

    do_HEAD = do_GET

    def do_POST(self):
        left = int(self.headers["Content-Length"])
        digest = hashlib.sha256()
        while left > 0:
            piece = self.rfile.read(min(left, 1 << 20))
            digest.update(piece)
            left -= len(piece)
        self.answer(self.seen() | {"sha256": digest.hexdigest()})


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Site).serve_forever()

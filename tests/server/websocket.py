"""A small client of RFC 6455 for the tests: one connection, whole messages, no extensions."""

import base64
import hashlib
import json
import os
import socket
import struct

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    """The server answered the handshake with something else than 101."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body!r}")
        self.status = status


class WebSocket:
    def __init__(self, server, path, headers=None, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout)
        self.stream = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        fields = {
            "Host": f"127.0.0.1:{server.port}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Version": "13",
        }
        if server.token:
            fields["Authorization"] = f"Bearer {server.token}"
        fields |= headers or {}
        lines = [f"GET {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in fields.items() if value]
        self.socket.sendall("\r\n".join(lines + ["", ""]).encode())
        status = int(self.stream.readline().split()[1])
        self.headers = {}
        while (line := self.stream.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        if status != 101:
            body = self.stream.read(int(self.headers.get("content-length", 0)))
            self.hang_up()
            raise Refused(status, body)
        want = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        assert self.headers["sec-websocket-accept"] == want, self.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hang_up()

    def hang_up(self):
        """Without a word, as a client that died."""
        self.stream.close()
        self.socket.close()

    def frame(self, opcode, payload):
        size = len(payload)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += struct.pack("!BH", 0x80 | 126, size)
        else:
            head += struct.pack("!BQ", 0x80 | 127, size)
        mask = os.urandom(4)
        key = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
        self.socket.sendall(head + mask + masked)

    def send(self, message):
        if isinstance(message, bytes):
            self.frame(BINARY, message)
        else:
            self.frame(TEXT, json.dumps(message).encode())

    def read_frame(self):
        head = self.stream.read(2)
        if len(head) < 2:
            raise EOFError("the server hung up")
        assert not head[1] & 0x80, "a server never masks"
        assert not head[0] & 0x70, "no extension was agreed on"
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self.stream.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.stream.read(8))
        return head[0] & 0x0F, bool(head[0] & 0x80), self.stream.read(size)

    def read(self):
        """The next message: bytes, or the value of a JSON text; None after the close."""
        kind, content = None, b""
        while True:
            opcode, final, payload = self.read_frame()
            if opcode == CLOSE:
                return None
            if opcode == PING:
                self.frame(PONG, payload)
                continue
            if opcode == PONG:
                continue
            kind = opcode or kind
            content += payload
            if final:
                return content if kind == BINARY else json.loads(content)

    def until(self, kind):
        """(binary messages before it, the text message of this type)"""
        before = []
        while (message := self.read()) is not None:
            if isinstance(message, bytes):
                before.append(message)
            elif message["type"] == kind:
                return before, message
            else:
                raise AssertionError(f"want {kind!r}, got {message}")
        raise AssertionError(f"closed before {kind!r}, after {before}")

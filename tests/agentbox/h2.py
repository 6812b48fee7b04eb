"""HTTP/2 by hand, for what no client library does: frames of any shape, a window that stays shut, half a preface.

Fields are sent as literals that nobody has to remember, so that a request is the same bytes each time. Fields of
answers are not decoded: who wants them asks with a real client.
"""

import socket
import struct

from harness import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
WINDOW_BYTES = 65535  # before anybody has said otherwise
INITIAL_WINDOW = 4  # a setting


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(value, bits=7, first=0):
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = [first | most], value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def literal(text):
    data = text if isinstance(text, bytes) else text.encode()
    return integer(len(data)) + data


def fields(pairs):
    return b"".join(b"\0" + literal(name) + literal(value) for name, value in pairs)


def request_fields(path, more=(), kind="application/grpc"):
    return fields([(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                   ("content-type", kind), ("te", "trailers"), *more])


def message(data, flags=0):
    """A message as gRPC frames it."""
    return bytes([flags]) + struct.pack(">I", len(data)) + data


class Link:
    """One connection. `settings` are sent with the preface; None sends nothing at all."""

    def __init__(self, port, settings=(), tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = -1
        if settings is not None:
            payload = b"".join(struct.pack(">HI", *one) for one in settings)
            self.send(PREFACE + frame(SETTINGS, payload=payload))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Gone without a word: the other side gets a reset instead of an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, path, body=b"", end=True, **more):
        """A request on a new stream; its number."""
        self.stream += 2
        self.send(frame(HEADERS, END_HEADERS, self.stream, request_fields(path, **more)) +
                  frame(DATA, END_STREAM if end else 0, self.stream, body))
        return self.stream

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                return None
            data += part
        return data

    def next(self):
        """(kind, flags, stream, payload); None at the end of the connection, be it a reset."""
        try:
            head = self._exactly(9)
            if head is None:
                return None
            payload = self._exactly(int.from_bytes(head[:3], "big"))
            return None if payload is None else (head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, payload)
        except (ConnectionResetError, BrokenPipeError):
            return None

    def frames(self):
        """Until the other side ends; settings and pings are answered."""
        while (one := self.next()) is not None:
            kind, flags, _, payload = one
            try:
                if kind == SETTINGS and not flags & ACK:
                    self.send(frame(SETTINGS, ACK))
                elif kind == PING and not flags & ACK:
                    self.send(frame(PING, ACK, payload=payload))
            except OSError:
                pass
            yield one

    def answer(self, stream):
        """(data, code of a reset or None) once the stream is over; None when the connection is."""
        data = b""
        for kind, flags, number, payload in self.frames():
            if kind == GOAWAY:
                continue
            if number != stream:
                continue
            if kind == DATA:
                data += payload
            if kind == RST_STREAM:
                return data, int.from_bytes(payload, "big")
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                return data, None
        return None

    def until_closed(self):
        """The code of the last GOAWAY, or None, when the other side has ended the connection."""
        code = None
        for kind, _, _, payload in self.frames():
            if kind == GOAWAY:
                code = int.from_bytes(payload[4:8], "big")
        return code

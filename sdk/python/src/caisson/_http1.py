"""HTTP/1.1 as bytes: heads that are sent, answers that are read. No sockets here."""

from __future__ import annotations

from typing import Iterable, NamedTuple

from .errors import BadAnswerError

HEAD_BYTES_MAX = 64 * 1024
CHUNK_LINE_BYTES_MAX = 1024
NUMBER_DIGITS_MAX = 15
DIGITS = {10: "0123456789", 16: "0123456789abcdefABCDEF"}
NO_BODY = (204, 304)


class Head(NamedTuple):
    status: int
    fields: dict[str, str]  # names in lower case


def whole_number(text: str, base: int = 10) -> int | None:
    """Digits and nothing else: int() also takes signs, blanks, underscores and digits of other scripts."""
    if not 0 < len(text) <= NUMBER_DIGITS_MAX or text.strip(DIGITS[base]):
        return None
    return int(text, base)


def request_head(method: str, target: str, fields: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields]
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise ValueError("a header or the target holds a line break")
    return text.encode("latin-1") + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


class AnswerParser:
    """Bytes in, a head and the pieces of a body out. `feed(b"")` says that the other side has closed."""

    def __init__(self, method: str) -> None:
        self.head: Head | None = None
        self.done = False
        self.reusable = False  # another request may follow on the connection
        self._method = method
        self._buffer = bytearray()
        self._left = 0  # of a body with a length, or of a chunk
        self._chunked = self._until_close = False
        self._closed = False
        self._chunk_begun = self._trailer = False

    @property
    def begun(self) -> bool:
        """Has anything come?"""
        return self.head is not None or bool(self._buffer)

    def feed(self, data: bytes) -> None:
        if data:
            self._buffer += data
        else:
            self._closed = True
        while self.head is None and self._read_head():
            pass

    def rest(self) -> bytes:
        """What came behind the head of a 101."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def piece(self) -> bytes | None:
        """The next bytes of the body; None: feed more, or it is done."""
        if self.done or self.head is None:
            return None
        if self._chunked:
            return self._chunked_piece()
        if not self._buffer:
            if self._closed and self._until_close:
                self.done = True
            elif self._closed:
                raise BadAnswerError("the answer was cut off")
            return None
        if self._until_close:
            data = bytes(self._buffer)
            self._buffer.clear()
            return data
        return self._take()

    def _take(self) -> bytes:
        """As much of what is left as is there."""
        data = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._left -= len(data)
        if self._left == 0 and not self._chunked:
            self.done = True
        return data

    def _read_head(self) -> bool:
        """True when an interim answer was skipped and another head follows."""
        end = self._buffer.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
        if end < 0:
            if len(self._buffer) >= HEAD_BYTES_MAX:
                raise BadAnswerError(f"the head of the answer has more than {HEAD_BYTES_MAX} bytes")
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = lines[0].split(" ", 2)
        status = whole_number(words[1]) if len(words) > 1 and words[0].startswith("HTTP/1.") else None
        if status is None:
            raise BadAnswerError(f"the answer is not HTTP/1.1: {lines[0][:80]!r}")
        if 100 <= status < 200 and status != 101:
            return True
        fields: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise BadAnswerError(f"the answer has a malformed header: {line[:80]!r}")
            name, value = name.lower(), value.strip()
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        self.head = Head(status, fields)
        self._frame(words[0], status, fields)
        return False

    def _frame(self, version: str, status: int, fields: dict[str, str]) -> None:
        """Where the body ends."""
        keep = "close" not in fields.get("connection", "").lower() and version == "HTTP/1.1"
        self.reusable = keep
        if self._method == "HEAD" or status in NO_BODY or status == 101:
            self.done = True
        elif "chunked" in fields.get("transfer-encoding", "").lower():
            self._chunked = True
        elif "content-length" in fields:
            text = fields["content-length"]
            length = whole_number(text)
            if length is None:
                raise BadAnswerError(f"Content-Length is {text[:40]!r}")
            self._left = length
            self.done = self._left == 0
        else:
            self._until_close = True
            self.reusable = False

    def _chunked_piece(self) -> bytes | None:
        while True:
            if self._left > 0:
                if self._buffer:
                    return self._take()
                break
            line = self._line()
            if line is None:
                break
            if self._chunk_begun:  # the line's end behind a chunk
                if line:
                    raise BadAnswerError("a chunk of the answer is longer than it said")
                self._chunk_begun = False
            elif self._trailer:
                if not line:
                    self.done = True
                    return None
            else:
                text = line.partition(b";")[0].strip().decode("latin-1")
                size = whole_number(text, 16)
                if size is None:
                    raise BadAnswerError(f"a chunk's size is {text[:40]!r}")
                self._left = size
                self._trailer = self._left == 0
                self._chunk_begun = self._left > 0
        if self._closed:
            raise BadAnswerError("the answer was cut off")
        return None

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", 0, CHUNK_LINE_BYTES_MAX)
        if end < 0:
            if len(self._buffer) >= CHUNK_LINE_BYTES_MAX:
                raise BadAnswerError("a chunk's line is too long")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

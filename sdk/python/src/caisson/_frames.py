"""RFC 6455 as bytes, the client's side: frames that are sent are masked, messages that come are put together."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from typing import NamedTuple

from .errors import BadAnswerError

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
CONTROL_BYTES_MAX = 125
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Message(NamedTuple):
    opcode: int  # TEXT, BINARY, CLOSE, PING or PONG
    data: bytes


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def accepted(key: str) -> str:
    """What the server must answer to the key."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()).decode()


def frame(opcode: int, data: bytes) -> bytes:
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    mask = os.urandom(4)
    # As two large numbers: the loop over bytes is then not Python's.
    key = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(key, "big")
    return head + mask + masked.to_bytes(size, "big")


class FrameParser:
    def __init__(self) -> None:
        self._buffer = bytearray()
        self._opcode = CONTINUED  # of the message whose frames are coming
        self._parts: list[bytes] = []
        self._bytes = 0

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole now."""
        self._buffer += data
        found: list[Message] = []
        while (one := self._frame()) is not None:
            final, opcode, payload = one
            message = self._add(final, opcode, payload)
            if message is not None:
                found.append(message)
        return found

    def _frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, at = buffer[1] & 0x7F, 2
        if buffer[0] & 0x70 or buffer[1] & 0x80:
            raise BadAnswerError("a WebSocket frame has bits that nobody agreed on")
        if size >= 126:
            at = 4 if size == 126 else 10
            if len(buffer) < at:
                return None
            size = int.from_bytes(buffer[2:at], "big")
        final, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        if size > (CONTROL_BYTES_MAX if opcode >= CLOSE else MESSAGE_BYTES_MAX):
            raise BadAnswerError(f"a WebSocket frame has {size} bytes")
        if len(buffer) < at + size:
            return None
        payload = bytes(buffer[at : at + size])
        del buffer[: at + size]
        return final, opcode, payload

    def _add(self, final: bool, opcode: int, payload: bytes) -> Message | None:
        if opcode >= CLOSE:
            return Message(opcode, payload)
        if (opcode == CONTINUED) != (self._opcode != CONTINUED):
            raise BadAnswerError("the frames of two WebSocket messages are mixed")
        if opcode != CONTINUED:
            self._opcode = opcode
        self._parts.append(payload)
        self._bytes += len(payload) or 1  # an empty one takes room, too
        if self._bytes > MESSAGE_BYTES_MAX:
            raise BadAnswerError(f"a WebSocket message has more than {MESSAGE_BYTES_MAX} bytes")
        if not final:
            return None
        message = Message(self._opcode, b"".join(self._parts))
        self._opcode, self._parts, self._bytes = CONTINUED, [], 0
        return message

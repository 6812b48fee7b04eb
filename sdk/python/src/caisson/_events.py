"""Server-sent events as bytes. Every event of this API carries one line of JSON."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from .errors import BadAnswerError

EVENT_BYTES_MAX = 16 * 1024 * 1024


class ServerEvent(NamedTuple):
    name: str
    id: str
    data: Any


class EventParser:
    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._name = self._id = ""
        self._data: list[str] = []
        self._size = 0  # of the lines of the event that is coming

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that are whole now."""
        self._buffer += data
        found: list[ServerEvent] = []
        begin = 0
        while (end := self._buffer.find(b"\n", max(begin, self._searched))) >= 0:
            line = self._buffer[begin:end].decode("utf-8", "replace").removesuffix("\r")
            begin = end + 1
            event = self._line(line)
            if event is not None:
                found.append(event)
        del self._buffer[:begin]
        self._searched = len(self._buffer)
        if self._searched + self._size > EVENT_BYTES_MAX:
            raise BadAnswerError(f"an event has more than {EVENT_BYTES_MAX} bytes")
        return found

    def _line(self, line: str) -> ServerEvent | None:
        if line == "":
            return self._whole()
        name, _, value = line.partition(":")  # a comment has an empty name
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
            self._size += len(line) + 1
        return None

    def _whole(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = "", [], 0
        if not data:
            return None
        try:
            return ServerEvent(name or "message", self._id, json.loads("\n".join(data)))
        except ValueError:
            raise BadAnswerError(f"the event {name!r} holds no JSON") from None

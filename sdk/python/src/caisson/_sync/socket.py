# Made from _async/socket.py by generate_sync.py: change it there.
"""WebSockets: commands with live input, terminals, and programs behind a port."""

from __future__ import annotations

import json
from collections import deque
from types import TracebackType
from typing import Any, Literal, Type, TypeVar

from .. import _frames as frames
from .._wire import Request, make_error
from ..errors import BadAnswerError, ConnectionLostError
from ..models import Exit, Output
from ..requests import ExecRequest
from .caller import Caller
from .exchange import Exchange
from .link import Link, clock

Self = TypeVar("Self", bound="WebSocket")
SILENCE_SECONDS_MAX = 90.0  # the server pings a quiet one more often
SEND_BYTES_MAX = 512 * 1024  # of one message; the server takes 1 MiB
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
_NORMAL = b"\x03\xe8"  # 1000


class WebSocket:
    """Messages both ways: text is str, binary is bytes."""

    def __init__(self, caller: Caller, request: Request) -> None:
        self._caller = caller
        self._request = request
        self._exchange: Exchange | None = None
        self._link: Link | None = None
        self._parser = frames.FrameParser()
        self._ready: deque[frames.Message] = deque()
        self._done = False

    def __enter__(self: Self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()

    def open(self) -> None:
        """Done by entering the block."""
        if self._link is not None or self._done:
            return
        key = frames.new_key()
        request = self._request._replace(fields=(*self._request.fields, *UPGRADE.items(), ("Sec-WebSocket-Key", key)))
        self._exchange, head = self._caller.open(request, clock() + self._caller.timeout)
        if head.status != 101 or head.fields.get("sec-websocket-accept") != frames.accepted(key):
            self._exchange.close()
            raise BadAnswerError(f"{request.operation.name}: want a WebSocket, got status {head.status}")
        self._link, rest = self._exchange.upgrade()
        self._ready.extend(self._parser.feed(rest))

    def send(self, message: str | bytes) -> None:
        if isinstance(message, str):
            self._send(frames.TEXT, message.encode())
        else:
            self._send(frames.BINARY, message)

    def receive(self, timeout: float | None = None) -> str | bytes | None:
        """The next message; None when the other side has closed."""
        while not self._done:
            while not self._ready:
                wait = SILENCE_SECONDS_MAX if timeout is None else timeout
                data = self._open_link().receive(clock() + wait)
                if not data:
                    self._drop()
                    raise ConnectionLostError("the WebSocket broke without a goodbye")
                self._ready.extend(self._parser.feed(data))
            message = self._ready.popleft()
            if message.opcode == frames.TEXT:
                return message.data.decode("utf-8", "replace")
            if message.opcode == frames.BINARY:
                return message.data
            self._control(message)
        return None

    def close(self) -> None:
        """Says goodbye and hangs up."""
        if self._link is not None and not self._done:
            try:
                self._send(frames.CLOSE, _NORMAL)
            except ConnectionLostError:
                pass
        self._drop()

    def _control(self, message: frames.Message) -> None:
        if message.opcode == frames.PING:
            self._send(frames.PONG, message.data)
        elif message.opcode == frames.CLOSE:
            self.close()

    def _send(self, opcode: int, data: bytes) -> None:
        self._open_link().send(frames.frame(opcode, data), clock() + self._caller.timeout)

    def _drop(self) -> None:
        self._done = True
        self._link = None
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    def _open_link(self) -> Link:
        if self._link is None:
            raise ConnectionLostError("the WebSocket is not open: use it in its block")
        return self._link


class Talk(WebSocket):
    """A WebSocket that begins with `start` and ends with `exit`."""

    exit: Exit | None = None  # known behind the last output
    process: int | None = None
    pid: int | None = None

    def resize(self, rows: int, cols: int) -> None:
        self._tell("resize", rows=rows, cols=cols)

    def wait(self) -> Exit:
        """Reads all that is left, and says how it ended."""
        while self._bytes(None) is not None:
            pass
        if self.exit is None:
            raise ConnectionLostError("the WebSocket was closed before the command ended")
        return self.exit

    def _tell(self, type: str, **more: Any) -> None:
        self.send(json.dumps({"type": type, **more}))

    def _bytes(self, timeout: float | None) -> bytes | None:
        """The next binary message; what is said between them is understood here."""
        while (message := self.receive(timeout)) is not None:
            if isinstance(message, bytes):
                return message
            said = json.loads(message)
            if said.get("type") == "error":
                self._drop()
                raise make_error(said["error"])
            if said.get("type") == "start":
                self.process, self.pid = said["process"], said["pid"]
                return b""
            if said.get("type") == "exit":
                self.exit = Exit.from_json({name: value for name, value in said.items() if name != "type"})
                self.close()
        return None


class Terminal(Talk):
    """A terminal. It goes on when you leave: `sandbox.terminal(process=…)` takes it up again."""

    def __iter__(self) -> Terminal:
        return self

    def __next__(self) -> bytes:
        data = self.read()
        if data is None:
            raise StopIteration
        return data

    def open(self) -> None:
        if self._link is None and not self._done:
            super().open()
            self._bytes(None)  # start

    def read(self, timeout: float | None = None) -> bytes | None:
        """What the screen shows next; None when the terminal has ended."""
        return self._bytes(timeout)

    def write(self, data: bytes | str) -> None:
        """What is typed."""
        data = data.encode() if isinstance(data, str) else data
        for at in range(0, len(data), SEND_BYTES_MAX):
            self.send(data[at : at + SEND_BYTES_MAX])

    def read_until(self, marker: bytes, timeout: float = 30.0) -> bytes:
        """All that comes until the marker is in it, with what came behind it."""
        deadline = clock() + timeout
        seen = b""
        while marker not in seen:
            data = self.read(max(deadline - clock(), 0.001))
            if data is None:
                raise ConnectionLostError(f"the terminal ended before {marker!r} came: {seen[-200:]!r}")
            seen += data
        return seen


class Command(Talk):
    """A command with live input. It dies when you leave."""

    def __init__(self, caller: Caller, request: Request, wish: ExecRequest) -> None:
        super().__init__(caller, request)
        self._wish = wish

    def __iter__(self) -> Command:
        return self

    def __next__(self) -> Output:
        data = self._bytes(None)
        if data is None:
            raise StopIteration
        name: Literal["stdout", "stderr"] = "stderr" if data[:1] == b"\2" else "stdout"
        return Output(stream=name, data=data[1:])

    def open(self) -> None:
        if self._link is None and not self._done:
            super().open()
            self.send(json.dumps(self._wish.to_json()))
            self._bytes(None)  # start

    def write(self, data: bytes | str) -> None:
        """To its standard input."""
        data = data.encode() if isinstance(data, str) else data
        for at in range(0, len(data), SEND_BYTES_MAX):
            self.send(b"\0" + data[at : at + SEND_BYTES_MAX])

    def close_input(self) -> None:
        self._tell("close_stdin")

    def signal(self, signal: str | int, *, tree: bool = False) -> None:
        self._tell("signal", signal=signal, tree=tree)

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
from .caller import AsyncCaller
from .exchange import AsyncExchange
from .link import AsyncLink, clock

Self = TypeVar("Self", bound="AsyncWebSocket")
SILENCE_SECONDS_MAX = 90.0  # the server pings a quiet one more often
SEND_BYTES_MAX = 512 * 1024  # of one message; the server takes 1 MiB
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
_NORMAL = b"\x03\xe8"  # 1000


class AsyncWebSocket:
    """Messages both ways: text is str, binary is bytes."""

    def __init__(self, caller: AsyncCaller, request: Request) -> None:
        self._caller = caller
        self._request = request
        self._exchange: AsyncExchange | None = None
        self._link: AsyncLink | None = None
        self._parser = frames.FrameParser()
        self._ready: deque[frames.Message] = deque()
        self._done = False

    async def __aenter__(self: Self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    async def open(self) -> None:
        """Done by entering the block."""
        if self._link is not None or self._done:
            return
        key = frames.new_key()
        request = self._request._replace(fields=(*self._request.fields, *UPGRADE.items(), ("Sec-WebSocket-Key", key)))
        self._exchange, head = await self._caller.open(request, clock() + self._caller.timeout)
        if head.status != 101 or head.fields.get("sec-websocket-accept") != frames.accepted(key):
            self._exchange.close()
            raise BadAnswerError(f"{request.operation.name}: want a WebSocket, got status {head.status}")
        self._link, rest = self._exchange.upgrade()
        self._ready.extend(self._parser.feed(rest))

    async def send(self, message: str | bytes) -> None:
        if isinstance(message, str):
            await self._send(frames.TEXT, message.encode())
        else:
            await self._send(frames.BINARY, message)

    async def receive(self, timeout: float | None = None) -> str | bytes | None:
        """The next message; None when the other side has closed."""
        while not self._done:
            while not self._ready:
                wait = SILENCE_SECONDS_MAX if timeout is None else timeout
                data = await self._open_link().receive(clock() + wait)
                if not data:
                    await self._drop()
                    raise ConnectionLostError("the WebSocket broke without a goodbye")
                self._ready.extend(self._parser.feed(data))
            message = self._ready.popleft()
            if message.opcode == frames.TEXT:
                return message.data.decode("utf-8", "replace")
            if message.opcode == frames.BINARY:
                return message.data
            await self._control(message)
        return None

    async def close(self) -> None:
        """Says goodbye and hangs up."""
        if self._link is not None and not self._done:
            try:
                await self._send(frames.CLOSE, _NORMAL)
            except ConnectionLostError:
                pass
        await self._drop()

    async def _control(self, message: frames.Message) -> None:
        if message.opcode == frames.PING:
            await self._send(frames.PONG, message.data)
        elif message.opcode == frames.CLOSE:
            await self.close()

    async def _send(self, opcode: int, data: bytes) -> None:
        await self._open_link().send(frames.frame(opcode, data), clock() + self._caller.timeout)

    async def _drop(self) -> None:
        self._done = True
        self._link = None
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    def _open_link(self) -> AsyncLink:
        if self._link is None:
            raise ConnectionLostError("the WebSocket is not open: use it in its block")
        return self._link


class AsyncTalk(AsyncWebSocket):
    """A WebSocket that begins with `start` and ends with `exit`."""

    exit: Exit | None = None  # known behind the last output
    process: int | None = None
    pid: int | None = None

    async def resize(self, rows: int, cols: int) -> None:
        await self._tell("resize", rows=rows, cols=cols)

    async def wait(self) -> Exit:
        """Reads all that is left, and says how it ended."""
        while await self._bytes(None) is not None:
            pass
        if self.exit is None:
            raise ConnectionLostError("the WebSocket was closed before the command ended")
        return self.exit

    async def _tell(self, type: str, **more: Any) -> None:
        await self.send(json.dumps({"type": type, **more}))

    async def _bytes(self, timeout: float | None) -> bytes | None:
        """The next binary message; what is said between them is understood here."""
        while (message := await self.receive(timeout)) is not None:
            if isinstance(message, bytes):
                return message
            said = json.loads(message)
            if said.get("type") == "error":
                await self._drop()
                raise make_error(said["error"])
            if said.get("type") == "start":
                self.process, self.pid = said["process"], said["pid"]
                return b""
            if said.get("type") == "exit":
                self.exit = Exit.from_json({name: value for name, value in said.items() if name != "type"})
                await self.close()
        return None


class AsyncTerminal(AsyncTalk):
    """A terminal. It goes on when you leave: `sandbox.terminal(process=…)` takes it up again."""

    def __aiter__(self) -> AsyncTerminal:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if data is None:
            raise StopAsyncIteration
        return data

    async def open(self) -> None:
        if self._link is None and not self._done:
            await super().open()
            await self._bytes(None)  # start

    async def read(self, timeout: float | None = None) -> bytes | None:
        """What the screen shows next; None when the terminal has ended."""
        return await self._bytes(timeout)

    async def write(self, data: bytes | str) -> None:
        """What is typed."""
        data = data.encode() if isinstance(data, str) else data
        for at in range(0, len(data), SEND_BYTES_MAX):
            await self.send(data[at : at + SEND_BYTES_MAX])

    async def read_until(self, marker: bytes, timeout: float = 30.0) -> bytes:
        """All that comes until the marker is in it, with what came behind it."""
        deadline = clock() + timeout
        seen = b""
        while marker not in seen:
            data = await self.read(max(deadline - clock(), 0.001))
            if data is None:
                raise ConnectionLostError(f"the terminal ended before {marker!r} came: {seen[-200:]!r}")
            seen += data
        return seen


class AsyncCommand(AsyncTalk):
    """A command with live input. It dies when you leave."""

    def __init__(self, caller: AsyncCaller, request: Request, wish: ExecRequest) -> None:
        super().__init__(caller, request)
        self._wish = wish

    def __aiter__(self) -> AsyncCommand:
        return self

    async def __anext__(self) -> Output:
        data = await self._bytes(None)
        if data is None:
            raise StopAsyncIteration
        name: Literal["stdout", "stderr"] = "stderr" if data[:1] == b"\2" else "stdout"
        return Output(stream=name, data=data[1:])

    async def open(self) -> None:
        if self._link is None and not self._done:
            await super().open()
            await self.send(json.dumps(self._wish.to_json()))
            await self._bytes(None)  # start

    async def write(self, data: bytes | str) -> None:
        """To its standard input."""
        data = data.encode() if isinstance(data, str) else data
        for at in range(0, len(data), SEND_BYTES_MAX):
            await self.send(b"\0" + data[at : at + SEND_BYTES_MAX])

    async def close_input(self) -> None:
        await self._tell("close_stdin")

    async def signal(self, signal: str | int, *, tree: bool = False) -> None:
        await self._tell("signal", signal=signal, tree=tree)

"""Streams of events, as typed iterators: output of commands, changes of files, events of sandboxes, progress of a pull.

A stream begins when its block is entered or its first item is asked for, and ends with the block. One that can be taken
up again (output of a process, events of sandboxes) goes on where it was when the connection breaks.
"""

from __future__ import annotations

import base64
from collections import deque
from types import TracebackType
from typing import Callable, Generic, Literal, Type, TypeVar

from .._events import EventParser, ServerEvent
from .._wire import Request, make_error
from ..errors import ConnectionLostError, ServerUnavailableError
from ..models import CodeResult, Event, Exit, FileChange, Output
from ..server_models import Image, PullProgress
from .caller import AsyncCaller
from .exchange import AsyncExchange
from .link import clock

T = TypeVar("T")
Self = TypeVar("Self", bound="AsyncStream")  # type: ignore[type-arg]
SILENCE_SECONDS_MAX = 60.0  # a quiet stream carries a comment every 15


class AsyncStream(Generic[T]):
    """What comes, one after the other."""

    resumes = False

    def __init__(self, caller: AsyncCaller, make: Callable[[str], Request]) -> None:
        self._caller = caller
        self._make = make  # from the id of the last event to a request
        self._exchange: AsyncExchange | None = None
        self._parser = EventParser()
        self._ready: deque[ServerEvent] = deque()
        self._last_id = ""
        self._breaks = 0  # since the last event
        self._done = False

    async def __aenter__(self: Self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    def __aiter__(self: Self) -> Self:
        return self

    async def __anext__(self) -> T:
        while (event := await self._next()) is not None:
            if event.name == "error":
                await self.close()
                raise make_error(event.data["error"])
            item = self._take(event)
            if item is not None:
                return item
            if self._done:
                break
        await self.close()
        raise StopAsyncIteration

    async def open(self) -> None:
        """Done by entering the block, and by the first item."""
        if self._exchange is None and not self._done:
            request = self._make(self._last_id)
            self._parser = EventParser()
            self._exchange, _ = await self._caller.open(request, clock() + self._caller.timeout)

    async def close(self) -> None:
        """Hangs up."""
        self._done = True
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    async def _next(self) -> ServerEvent | None:
        while not self._ready:
            if self._done:
                return None
            await self.open()
            try:
                await self._read()
            except ServerUnavailableError:
                self._breaks += 1
                if not self.resumes or self._breaks > self._caller.retries:
                    await self.close()
                    raise
                self._hang_up()
        event = self._ready.popleft()
        self._last_id = event.id or self._last_id
        self._breaks = 0
        return event

    async def _read(self) -> None:
        assert self._exchange is not None
        data = await self._exchange.read_piece(clock() + SILENCE_SECONDS_MAX)
        if data is None:
            raise ConnectionLostError("the stream ended before its last event")
        self._ready.extend(self._parser.feed(data))

    def _hang_up(self) -> None:
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    def _take(self, event: ServerEvent) -> T | None:
        """What the event is for the reader; None: nothing."""
        raise NotImplementedError


class AsyncCommandStream(AsyncStream[Output]):
    """Output of a command that dies when its reader leaves."""

    exit: Exit | None = None  # known behind the last output
    process: int | None = None
    pid: int | None = None

    def _take(self, event: ServerEvent) -> Output | None:
        if event.name == "start":
            self.process, self.pid = event.data["process"], event.data["pid"]
        elif event.name == "exit":
            self.exit = Exit.from_json(event.data)
            self._done = True
        elif event.name == "stdout" or event.name == "stderr":
            name: Literal["stdout", "stderr"] = "stdout" if event.name == "stdout" else "stderr"
            return Output(stream=name, data=base64.b64decode(event.data["data"]), offset=event.data["offset"],
                          lost=event.data["lost"])
        return None

    async def wait(self) -> Exit:
        """Reads all that is left, and says how it ended."""
        async for _ in self:
            pass
        if self.exit is None:
            raise ConnectionLostError("the stream was closed before the command ended")
        return self.exit


class AsyncCodeStream(AsyncCommandStream):
    """Output of code that is ended when its reader leaves. `result` is there behind the last of it."""

    result: CodeResult | None = None

    def _take(self, event: ServerEvent) -> Output | None:
        if event.name != "result":
            return super()._take(event)
        self.result = CodeResult.from_json(event.data)
        self.exit = Exit(exit_code=self.result.exit_code, signal=0, timed_out=self.result.timed_out, oom_killed=False)
        self._done = True
        return None


class AsyncOutputStream(AsyncCommandStream):
    """Output of a process in the background, which goes on without readers."""

    resumes = True


class AsyncEventStream(AsyncStream[Event]):
    """What happens to the sandboxes. It has no end."""

    resumes = True

    def _take(self, event: ServerEvent) -> Event | None:
        return Event.from_json(event.data)


class AsyncWatch(AsyncStream[FileChange]):
    """Changes below a path. From the beginning of the block on nothing is missed."""

    async def open(self) -> None:
        if self._exchange is None and not self._done:
            await super().open()
            while not self._ready:
                await self._read()

    def _take(self, event: ServerEvent) -> FileChange | None:
        return FileChange.from_json(event.data) if event.name == "change" else None


class AsyncPull(AsyncStream[PullProgress]):
    """Progress of a pull. `image` is there behind the last item."""

    image: Image | None = None

    def _take(self, event: ServerEvent) -> PullProgress | None:
        if event.name == "image":
            self.image = Image.from_json(event.data)
            self._done = True
            return None
        return PullProgress.from_json(event.data) if event.name == "progress" else None

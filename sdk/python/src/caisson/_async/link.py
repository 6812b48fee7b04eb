"""A connection for asyncio: bytes out, bytes in, each with a deadline. The twin of _sync/link.py.

It is a protocol of its own rather than a pair of streams: a deadline is then one timer, not one more task for each
read.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import AsyncIterator, Iterable

from .._endpoint import Endpoint
from ..errors import CallTimedOutError, ConnectionFailedError, ConnectionLostError

UNREAD_BYTES_MAX = 256 * 1024  # then the other side has to wait
clock = time.monotonic
pause = asyncio.sleep


class AsyncLink(asyncio.Protocol):
    def __init__(self) -> None:
        self._unread = bytearray()
        self._lost: Exception | None = None
        self._ended = False
        self._paused_reading = self._paused_writing = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._transport: asyncio.Transport | None = None
        self.idle_since = 0.0

    @classmethod
    async def open(cls, endpoint: Endpoint, tls: ssl.SSLContext | None, deadline: float) -> AsyncLink:
        loop = asyncio.get_running_loop()
        made = loop.create_connection(cls, endpoint.host, endpoint.port, ssl=tls,
                                      server_hostname=endpoint.host if tls is not None else None)
        try:
            _, link = await asyncio.wait_for(made, max(deadline - clock(), 0.001))
        except asyncio.TimeoutError:
            raise CallTimedOutError(f"no connection to {endpoint.authority} in time") from None
        except OSError as error:
            raise ConnectionFailedError(f"no connection to {endpoint.authority}: {error}") from error
        return link

    @property
    def alive(self) -> bool:
        """Nothing has come since the last answer: no end, and no bytes that nobody asked for."""
        return not self._unread and not self._ended and self._lost is None

    async def send(self, data: bytes, deadline: float) -> None:
        self._check()
        assert self._transport is not None
        self._transport.write(data)
        while self._paused_writing:
            writer = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await self._wait(writer, deadline)
            self._check()

    async def receive(self, deadline: float) -> bytes:
        """Some bytes; none when the other side has closed."""
        while not self._unread:
            if self._ended:
                return b""
            self._check()
            self._reader = asyncio.get_running_loop().create_future()
            await self._wait(self._reader, deadline)
        data = bytes(self._unread)
        self._unread.clear()
        if self._paused_reading and self._transport is not None:
            self._paused_reading = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def abandon(self) -> None:
        """Lets go of the connection, which another process goes on with: its event loop is that one's, too."""
        self._transport = None

    def _check(self) -> None:
        if self._lost is not None:
            raise ConnectionLostError(f"the connection broke: {self._lost}") from self._lost

    @staticmethod
    async def _wait(event: asyncio.Future[None], deadline: float) -> None:
        timer = asyncio.get_running_loop().call_later(max(deadline - clock(), 0), _expire, event)
        try:
            await event
        finally:
            timer.cancel()

    # --- what the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > UNREAD_BYTES_MAX and self._transport is not None:
            self._paused_reading = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._ended = True
        _wake(self._reader)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = self._ended or error is None
        self._lost = error or ConnectionResetError("it is closed")
        _wake(self._reader)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._paused_writing = True

    def resume_writing(self) -> None:
        self._paused_writing = False
        for writer in self._writers:
            _wake(writer)
        self._writers.clear()


def _wake(event: asyncio.Future[None] | None) -> None:
    if event is not None and not event.done():
        event.set_result(None)


def _expire(event: asyncio.Future[None]) -> None:
    if not event.done():
        event.set_exception(CallTimedOutError("no answer in time"))


class AsyncGate:
    """At most so many connections at once; who finds none free waits."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.BoundedSemaphore(most)

    async def enter(self, deadline: float) -> None:
        try:
            if self._free.locked():
                await asyncio.wait_for(self._free.acquire(), max(deadline - clock(), 0))
            else:
                await self._free.acquire()
        except asyncio.TimeoutError:
            raise CallTimedOutError("every connection was in use all the time; raise connections_max") from None

    def leave(self) -> None:
        self._free.release()


async def pieces_of(body: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece

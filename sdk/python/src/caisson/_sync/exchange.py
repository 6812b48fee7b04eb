# Made from _async/exchange.py by generate_sync.py: change it there.
"""One request and its answer on a connection, and the connections that wait for the next."""

from __future__ import annotations

import os
import ssl
from collections import deque

from .._endpoint import Endpoint
from .._http1 import LAST_CHUNK, AnswerParser, Head, chunk, request_head
from .._wire import Request
from ..errors import BadAnswerError, CaissonError, ConnectionLostError
from .link import Gate, Link, clock, pieces_of

IDLE_LINKS_MAX = 16
IDLE_SECONDS_MAX = 60.0  # the server closes after 75: a connection that is taken up must not be one that is closing
SMALL_BODY_BYTES_MAX = 64 * 1024  # goes out in one piece with its head


class Pool:
    """Connections to one server. Those that are idle are few and young."""

    def __init__(self, endpoint: Endpoint, tls: ssl.SSLContext | None, connections_max: int) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._connections_max = connections_max
        self._gate = Gate(connections_max)
        self._owner = os.getpid()
        self._idle: deque[Link] = deque()
        self._closed = False

    def take(self, deadline: float) -> Link:
        if self._closed:
            raise CaissonError("the client is closed")
        self._leave_to_parent()
        self._gate.enter(deadline)
        try:
            while True:
                try:
                    link = self._idle.pop()  # the youngest
                except IndexError:
                    return Link.open(self._endpoint, self._tls, deadline)
                if clock() - link.idle_since < IDLE_SECONDS_MAX and link.alive:
                    return link
                link.close()
        except BaseException:
            self._gate.leave()
            raise

    def give(self, link: Link) -> None:
        """For the next request."""
        link.idle_since = clock()
        if self._closed or len(self._idle) >= IDLE_LINKS_MAX:
            link.close()
        else:
            self._idle.append(link)
        self._gate.leave()

    def drop(self, link: Link) -> None:
        link.close()
        self._gate.leave()

    def _leave_to_parent(self) -> None:
        """In a forked process: on a connection that two share, each hears the other's answers."""
        if self._owner == os.getpid():
            return
        self._owner = os.getpid()
        self._gate = Gate(self._connections_max)
        idle, self._idle = self._idle, deque()
        for link in idle:
            link.abandon()

    def close(self) -> None:
        self._leave_to_parent()
        self._closed = True
        while self._idle:
            self._idle.pop().close()


class Exchange:
    def __init__(self, pool: Pool, link: Link, method: str) -> None:
        self._pool = pool
        self._link: Link | None = link
        self._parser = AnswerParser(method)
        self._broken = False  # not all of the request has left

    def start(self, request: Request, deadline: float) -> Head:
        """Sends the request and reads the head of its answer."""
        link = self._held()
        head = request_head(request.operation.method, request.target, request.fields)
        try:
            if isinstance(request.body, bytes) and len(request.body) <= SMALL_BODY_BYTES_MAX:
                link.send(head + request.body, deadline)
            else:
                link.send(head, deadline)
                self._send_body(link, request, deadline)
        except ConnectionLostError:
            # Who refuses a body early answers and closes: the answer says more than the broken pipe.
            if request.body is None:
                raise
            self._broken = True
        return self._read_head(deadline)

    def _send_body(self, link: Link, request: Request, deadline: float) -> None:
        if isinstance(request.body, bytes):
            link.send(request.body, deadline)
        elif request.body is not None:
            for piece in pieces_of(request.body):
                if piece:
                    link.send(chunk(piece), deadline)
            link.send(LAST_CHUNK, deadline)

    def _read_head(self, deadline: float) -> Head:
        link = self._held()
        while self._parser.head is None:
            data = link.receive(deadline)
            if not data:
                raise ConnectionLostError("the server closed the connection without an answer")
            self._parser.feed(data)
        if self._parser.done and self._parser.head.status != 101:
            self._release()
        return self._parser.head

    def read_piece(self, deadline: float) -> bytes | None:
        """Some bytes of the body; None behind the last."""
        while self._link is not None:
            try:
                data = self._parser.piece()
            except BadAnswerError as error:
                self.close()
                raise ConnectionLostError(str(error)) from None
            if self._parser.done:
                self._release()
            if data:
                return data
            if self._link is not None:
                self._parser.feed(self._link.receive(deadline))
        return None

    def read_all(self, deadline: float, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while (piece := self.read_piece(deadline)) is not None:
            parts.append(piece)
            size += len(piece)
            if size > bytes_max:
                self.close()
                raise BadAnswerError(f"the answer has more than {bytes_max} bytes: stream it instead")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def upgrade(self) -> tuple[Link, bytes]:
        """The connection itself, and what came behind the head. It still counts until close()."""
        return self._held(), self._parser.rest()

    def close(self) -> None:
        """Hangs up, unless the answer is whole."""
        if self._link is not None:
            link, self._link = self._link, None
            self._pool.drop(link)

    def _held(self) -> Link:
        if self._link is None:
            raise ConnectionLostError("the connection was closed")
        return self._link

    def _release(self) -> None:
        if self._link is not None:
            link, self._link = self._link, None
            if self._parser.reusable and not self._broken:
                self._pool.give(link)
            else:
                self._pool.drop(link)

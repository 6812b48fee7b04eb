"""A connection for threads: bytes out, bytes in, each with a deadline. The twin of _async/link.py.

One thread may read while another writes, as with a terminal. So the socket never blocks, and who must wait asks the
kernel: a timeout that is set on the socket would be both threads'.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from typing import Iterable, Iterator

from .._endpoint import Endpoint
from ..errors import CallTimedOutError, ConnectionFailedError, ConnectionLostError

RECEIVE_BYTES = 256 * 1024
clock = time.monotonic
pause = time.sleep


class Link:
    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        # OpenSSL's state is one for both directions; a message is sent whole before another begins.
        self._tls = threading.Lock() if isinstance(connection, ssl.SSLSocket) else None
        self._sending = threading.Lock()
        self.idle_since = 0.0

    @classmethod
    def open(cls, endpoint: Endpoint, tls: ssl.SSLContext | None, deadline: float) -> Link:
        try:
            connection = socket.create_connection((endpoint.host, endpoint.port), max(deadline - clock(), 0.001))
        except TimeoutError:
            raise CallTimedOutError(f"no connection to {endpoint.authority} in time") from None
        except OSError as error:
            raise ConnectionFailedError(f"no connection to {endpoint.authority}: {error}") from error
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                connection = tls.wrap_socket(connection, server_hostname=endpoint.host)
        except OSError as error:
            connection.close()
            raise ConnectionFailedError(f"TLS with {endpoint.authority}: {error}") from error
        return cls(connection)

    @property
    def alive(self) -> bool:
        """Nothing has come since the last answer: no end, and no bytes that nobody asked for."""
        return not _ready(self._socket, select.POLLIN, 0)

    def send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        with self._sending:
            while view:
                try:
                    if self._tls is None:
                        count = self._socket.send(view)
                    else:
                        with self._tls:
                            count = self._socket.send(view)
                    view = view[count:]
                except (BlockingIOError, ssl.SSLWantWriteError):
                    self._wait(select.POLLOUT, deadline)
                except ssl.SSLWantReadError:
                    self._wait(select.POLLIN, deadline)
                except OSError as error:
                    raise ConnectionLostError(f"the connection broke: {error}") from error

    def receive(self, deadline: float) -> bytes:
        """Some bytes; none when the other side has closed."""
        while True:
            try:
                if self._tls is None:
                    return self._socket.recv(RECEIVE_BYTES)
                with self._tls:
                    return self._socket.recv(RECEIVE_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._wait(select.POLLIN, deadline)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise ConnectionLostError(f"the connection broke: {error}") from error

    def close(self) -> None:
        try:
            # Wakes a thread that still waits in receive().
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def abandon(self) -> None:
        """Lets go of the connection, which another process goes on with."""
        self._socket.close()

    def _wait(self, event: int, deadline: float) -> None:
        left = deadline - clock()
        if left <= 0 or not _ready(self._socket, event, left):
            raise CallTimedOutError("no answer in time")


def _ready(connection: socket.socket, event: int, seconds: float) -> bool:
    if connection.fileno() < 0:
        raise ConnectionLostError("the connection was closed")
    poll = select.poll()
    poll.register(connection, event)
    return bool(poll.poll(seconds * 1000))


class Gate:
    """At most so many connections at once; who finds none free waits."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    def enter(self, deadline: float) -> None:
        if not self._free.acquire(timeout=max(deadline - clock(), 0)):
            raise CallTimedOutError("every connection was in use all the time; raise connections_max")

    def leave(self) -> None:
        self._free.release()


def pieces_of(body: Iterable[bytes]) -> Iterator[bytes]:
    yield from body

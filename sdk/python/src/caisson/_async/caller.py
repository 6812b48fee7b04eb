"""Makes the calls: retries, deadlines, values and errors."""

from __future__ import annotations

import ssl
from typing import Any, Callable, Iterable, Mapping, TypeVar

from .._endpoint import Endpoint
from .._http1 import Head
from .._model import Model
from .._operations import Nothing, Operation
from .._retry import Retry
from .._wire import ANSWER_BYTES_MAX, ERROR_BYTES_MAX, Request, build, read_error, read_value, retry_after
from ..errors import CallTimedOutError, NotFoundError, ServerUnavailableError
from .exchange import AsyncExchange, AsyncPool
from .link import clock, pause

T = TypeVar("T")
Body = Model | bytes | Iterable[bytes] | None
NONE: Mapping[str, Any] = {}


class AsyncCaller:
    def __init__(self, endpoint: Endpoint, tls: ssl.SSLContext | None, timeout: float, retries: int,
                 connections_max: int) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self.retries = retries
        self._pool = AsyncPool(endpoint, tls, connections_max)

    async def call(self, operation: Operation[T], path: Mapping[str, str | int] = NONE, *,
                   query: Mapping[str, Any] = NONE, headers: Mapping[str, str] = NONE, body: Body = None,
                   timeout: float | None = None) -> T:
        """One call, from its arguments to its value."""
        request = build(self.endpoint, operation, path, query, headers, body)
        deadline = clock() + (self.timeout if timeout is None else timeout)
        exchange, _ = await self.open(request, deadline)
        try:
            content = await exchange.read_all(deadline, ANSWER_BYTES_MAX)
        finally:
            exchange.close()
        return read_value(operation, content)

    def request(self, operation: Operation[T], path: Mapping[str, str | int] = NONE, *,
                query: Mapping[str, Any] = NONE, headers: Mapping[str, str] = NONE, body: Body = None,
                raw_query: str = "") -> Request:
        return build(self.endpoint, operation, path, query, headers, body, raw_query)

    async def open(self, request: Request, deadline: float,
                   refused: Callable[[Head], bool] = lambda head: head.status >= 400) -> tuple[AsyncExchange, Head]:
        """The head of a good answer; its body is still to be read. Tries again where that is safe."""
        retry = Retry(request.repeatable, self.retries)
        lost = False
        while True:
            try:
                exchange, head = await self._attempt(request, deadline)
            except ServerUnavailableError as error:
                sent = error.sent
                wait = retry.after_loss(sent)
                if wait is None or clock() + wait > deadline:
                    raise
                lost = lost or sent
            else:
                if not refused(head):
                    return exchange, head
                try:
                    error_body = await exchange.read_all(deadline, ERROR_BYTES_MAX)
                finally:
                    exchange.close()
                refusal = read_error(head, error_body)
                if lost and request.operation.answer is Nothing and isinstance(refusal, NotFoundError):
                    return exchange, Head(204, {})  # the first attempt, whose answer was lost, removed it
                wait = retry.after_answer(head.status, retry_after(head))
                if wait is None or clock() + wait > deadline:
                    raise refusal
            await pause(wait)

    async def _attempt(self, request: Request, deadline: float) -> tuple[AsyncExchange, Head]:
        link = await self._pool.take(deadline)
        exchange = AsyncExchange(self._pool, link, request.operation.method)
        try:
            return exchange, await exchange.start(request, deadline)
        except ServerUnavailableError as error:
            exchange.close()
            error.sent = True
            raise
        except CallTimedOutError:
            exchange.close()
            raise CallTimedOutError(f"{request.operation.name}: no answer in time") from None
        except BaseException:
            exchange.close()
            raise

    def close(self) -> None:
        self._pool.close()

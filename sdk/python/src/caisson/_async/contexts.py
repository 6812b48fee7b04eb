"""Code in interpreters that wait for it: contexts, in which variables stay."""

from __future__ import annotations

from types import TracebackType
from typing import List, Mapping, Sequence, Type

from .. import _operations as op
from .._wire import EVENT_STREAM
from ..errors import GoneError, NotFoundError
from ..models import CodeResult, ContextInfo
from ..requests import CodeRequest, ContextRequest, Language
from .caller import AsyncCaller
from .stream import AsyncCodeStream


class AsyncCode:
    """What runs code: by itself, or in one context."""

    def __init__(self, caller: AsyncCaller, sandbox: str) -> None:
        self._caller = caller
        self._sandbox: dict[str, str | int] = {"id": sandbox}

    async def run(self, body: CodeRequest) -> CodeResult:
        timeout = self._caller.timeout + (body.timeout_seconds or 0.0)
        return await self._caller.call(op.RUN_CODE, self._sandbox, body=body, timeout=timeout)

    def stream(self, body: CodeRequest) -> AsyncCodeStream:
        return AsyncCodeStream(self._caller, lambda last_id: self._caller.request(
            op.RUN_CODE, self._sandbox, headers={"Accept": EVENT_STREAM}, body=body))


class AsyncContext:
    """One of them. As a block it ends with it. `info` is how it was when somebody last asked."""

    def __init__(self, caller: AsyncCaller, sandbox: str, info: ContextInfo) -> None:
        self._caller = caller
        self._code = AsyncCode(caller, sandbox)
        self._path: dict[str, str | int] = {"id": sandbox, "context": info.id}
        self.id = info.id
        self.info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.info.language}>"

    async def __aenter__(self) -> AsyncContext:
        return self

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        try:
            await self.remove()
        except (GoneError, NotFoundError):
            pass  # it has ended by itself

    async def run(self, code: str, *, stdin: str | None = None, timeout_seconds: float | None = None,
                  output_bytes_max: int | None = None) -> CodeResult:
        """Runs code among the variables of the context. Over its time it is interrupted."""
        return await self._code.run(CodeRequest(
            code=code, language=self.info.language, context=self.id, stdin=stdin, timeout_seconds=timeout_seconds,
            output_bytes_max=output_bytes_max))

    def run_stream(self, code: str, *, stdin: str | None = None,
                   timeout_seconds: float | None = None) -> AsyncCodeStream:
        """The output while it comes. Who leaves the block early interrupts the code."""
        return self._code.stream(CodeRequest(code=code, language=self.info.language, context=self.id, stdin=stdin,
                                             timeout_seconds=timeout_seconds))

    async def interrupt(self) -> None:
        """What runs in it, as by Ctrl-C; its variables stay."""
        await self._caller.call(op.INTERRUPT_CONTEXT, self._path)

    async def remove(self) -> None:
        """Ends it, with what runs in it."""
        await self._caller.call(op.REMOVE_CONTEXT, self._path)


class AsyncContexts:
    """`sandbox.contexts`."""

    def __init__(self, caller: AsyncCaller, sandbox: str) -> None:
        self._caller = caller
        self._id = sandbox

    async def create(self, language: Language = "python", *, imports: Sequence[str] | None = None,
                     env: Mapping[str, str] | None = None, workdir: str | None = None) -> AsyncContext:
        body = ContextRequest(language=language, imports=imports, env=env, workdir=workdir)
        info = await self._caller.call(op.CREATE_CONTEXT, {"id": self._id}, body=body)
        return AsyncContext(self._caller, self._id, info)

    async def list(self) -> List[AsyncContext]:
        answer = await self._caller.call(op.LIST_CONTEXTS, {"id": self._id})
        return [AsyncContext(self._caller, self._id, info) for info in answer.contexts]

# Made from _async/contexts.py by generate_sync.py: change it there.
"""Code in interpreters that wait for it: contexts, in which variables stay."""

from __future__ import annotations

from types import TracebackType
from typing import List, Mapping, Sequence, Type

from .. import _operations as op
from .._wire import EVENT_STREAM
from ..errors import GoneError, NotFoundError
from ..models import CodeResult, ContextInfo
from ..requests import CodeRequest, ContextRequest, Language
from .caller import Caller
from .stream import CodeStream


class Code:
    """What runs code: by itself, or in one context."""

    def __init__(self, caller: Caller, sandbox: str) -> None:
        self._caller = caller
        self._sandbox: dict[str, str | int] = {"id": sandbox}

    def run(self, body: CodeRequest) -> CodeResult:
        timeout = self._caller.timeout + (body.timeout_seconds or 0.0)
        return self._caller.call(op.RUN_CODE, self._sandbox, body=body, timeout=timeout)

    def stream(self, body: CodeRequest) -> CodeStream:
        return CodeStream(self._caller, lambda last_id: self._caller.request(
            op.RUN_CODE, self._sandbox, headers={"Accept": EVENT_STREAM}, body=body))


class Context:
    """One of them. As a block it ends with it. `info` is how it was when somebody last asked."""

    def __init__(self, caller: Caller, sandbox: str, info: ContextInfo) -> None:
        self._caller = caller
        self._code = Code(caller, sandbox)
        self._path: dict[str, str | int] = {"id": sandbox, "context": info.id}
        self.id = info.id
        self.info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.info.language}>"

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        try:
            self.remove()
        except (GoneError, NotFoundError):
            pass  # it has ended by itself

    def run(self, code: str, *, stdin: str | None = None, timeout_seconds: float | None = None,
                  output_bytes_max: int | None = None) -> CodeResult:
        """Runs code among the variables of the context. Over its time it is interrupted."""
        return self._code.run(CodeRequest(
            code=code, language=self.info.language, context=self.id, stdin=stdin, timeout_seconds=timeout_seconds,
            output_bytes_max=output_bytes_max))

    def run_stream(self, code: str, *, stdin: str | None = None,
                   timeout_seconds: float | None = None) -> CodeStream:
        """The output while it comes. Who leaves the block early interrupts the code."""
        return self._code.stream(CodeRequest(code=code, language=self.info.language, context=self.id, stdin=stdin,
                                             timeout_seconds=timeout_seconds))

    def interrupt(self) -> None:
        """What runs in it, as by Ctrl-C; its variables stay."""
        self._caller.call(op.INTERRUPT_CONTEXT, self._path)

    def remove(self) -> None:
        """Ends it, with what runs in it."""
        self._caller.call(op.REMOVE_CONTEXT, self._path)


class Contexts:
    """`sandbox.contexts`."""

    def __init__(self, caller: Caller, sandbox: str) -> None:
        self._caller = caller
        self._id = sandbox

    def create(self, language: Language = "python", *, imports: Sequence[str] | None = None,
                     env: Mapping[str, str] | None = None, workdir: str | None = None) -> Context:
        body = ContextRequest(language=language, imports=imports, env=env, workdir=workdir)
        info = self._caller.call(op.CREATE_CONTEXT, {"id": self._id}, body=body)
        return Context(self._caller, self._id, info)

    def list(self) -> List[Context]:
        answer = self._caller.call(op.LIST_CONTEXTS, {"id": self._id})
        return [Context(self._caller, self._id, info) for info in answer.contexts]

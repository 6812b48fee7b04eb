"""Processes in the background of a sandbox: their output is kept, and read from any offset, as often as one likes."""

from __future__ import annotations

from typing import List, Mapping, Sequence

from .. import _operations as op
from ..models import ProcessInfo
from ..requests import ProcessRequest, ResizeRequest, SignalRequest
from .caller import AsyncCaller
from .files import OCTETS
from .stream import AsyncOutputStream

WAIT_SECONDS_MAX = 3600.0  # of one call; longer waits are several


def command_or_argv(command: str | Sequence[str]) -> tuple[str | None, Sequence[str] | None]:
    """A line for the shell, or a program and its arguments without one."""
    return (command, None) if isinstance(command, str) else (None, list(command))


class AsyncProcess:
    """One of them. `info` is how it was when somebody last asked."""

    def __init__(self, caller: AsyncCaller, sandbox: str, info: ProcessInfo) -> None:
        self._caller = caller
        self._path: dict[str, str | int] = {"id": sandbox, "pid": info.id}
        self.id = info.id
        self.info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.info.command!r}>"

    async def refresh(self) -> ProcessInfo:
        self.info = await self._caller.call(op.GET_PROCESS, self._path)
        return self.info

    def output(self, *, stdout_offset: int = 0, stderr_offset: int = 0) -> AsyncOutputStream:
        """From an offset on until it ends; goes on by itself when the connection breaks."""
        query = {"stdout_offset": stdout_offset, "stderr_offset": stderr_offset}
        return AsyncOutputStream(self._caller, lambda last_id: self._caller.request(
            op.STREAM_OUTPUT, self._path, query=query, headers={"Last-Event-ID": last_id} if last_id else {}))

    async def write(self, data: bytes | str, *, close: bool = False, timeout: float | None = None) -> None:
        """To its standard input; returns when all of it is taken."""
        body = data.encode() if isinstance(data, str) else data
        await self._caller.call(op.WRITE_INPUT, self._path, query={"close": close}, headers=OCTETS, body=body,
                                timeout=timeout)

    async def close_input(self) -> None:
        await self.write(b"", close=True)

    async def signal(self, signal: str | int = "TERM", *, tree: bool = False) -> None:
        await self._caller.call(op.SIGNAL_PROCESS, self._path, body=SignalRequest(signal=signal, tree=tree))

    async def resize(self, rows: int, cols: int) -> None:
        await self._caller.call(op.RESIZE_PROCESS, self._path, body=ResizeRequest(rows=rows, cols=cols))

    async def wait(self, timeout_seconds: float = 60.0) -> ProcessInfo:
        """Until it has ended, or the time is over: then `running` is true."""
        while True:
            seconds = min(timeout_seconds, WAIT_SECONDS_MAX)
            timeout_seconds -= seconds
            self.info = await self._caller.call(op.WAIT_PROCESS, self._path, query={"timeout_seconds": seconds},
                                                timeout=self._caller.timeout + seconds)
            if not self.info.running or timeout_seconds <= 0:
                return self.info

    async def remove(self) -> None:
        """Kills it with all it started, and forgets its output."""
        await self._caller.call(op.REMOVE_PROCESS, self._path)


class AsyncProcesses:
    """`sandbox.processes`."""

    def __init__(self, caller: AsyncCaller, sandbox: str) -> None:
        self._caller = caller
        self._id = sandbox

    async def start(self, command: str | Sequence[str], *, env: Mapping[str, str] | None = None,
                    workdir: str | None = None, timeout_seconds: float | None = None, merge_stderr: bool | None = None,
                    terminal: bool | None = None, input: bool | None = None, rows: int | None = None,
                    cols: int | None = None) -> AsyncProcess:
        line, argv = command_or_argv(command)
        body = ProcessRequest(command=line, argv=argv, env=env, workdir=workdir, timeout_seconds=timeout_seconds,
                              merge_stderr=merge_stderr, terminal=terminal, input=input, rows=rows, cols=cols)
        info = await self._caller.call(op.START_PROCESS, {"id": self._id}, body=body)
        return AsyncProcess(self._caller, self._id, info)

    async def get(self, process: int) -> AsyncProcess:
        info = await self._caller.call(op.GET_PROCESS, {"id": self._id, "pid": process})
        return AsyncProcess(self._caller, self._id, info)

    async def list(self) -> List[AsyncProcess]:
        answer = await self._caller.call(op.LIST_PROCESSES, {"id": self._id})
        return [AsyncProcess(self._caller, self._id, info) for info in answer.processes]

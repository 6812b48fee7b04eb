# Made from _async/processes.py by generate_sync.py: change it there.
"""Processes in the background of a sandbox: their output is kept, and read from any offset, as often as one likes."""

from __future__ import annotations

from typing import List, Mapping, Sequence

from .. import _operations as op
from ..models import ProcessInfo
from ..requests import ProcessRequest, ResizeRequest, SignalRequest
from .caller import Caller
from .files import OCTETS
from .stream import OutputStream

WAIT_SECONDS_MAX = 3600.0  # of one call; longer waits are several


def command_or_argv(command: str | Sequence[str]) -> tuple[str | None, Sequence[str] | None]:
    """A line for the shell, or a program and its arguments without one."""
    return (command, None) if isinstance(command, str) else (None, list(command))


class Process:
    """One of them. `info` is how it was when somebody last asked."""

    def __init__(self, caller: Caller, sandbox: str, info: ProcessInfo) -> None:
        self._caller = caller
        self._path: dict[str, str | int] = {"id": sandbox, "pid": info.id}
        self.id = info.id
        self.info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.info.command!r}>"

    def refresh(self) -> ProcessInfo:
        self.info = self._caller.call(op.GET_PROCESS, self._path)
        return self.info

    def output(self, *, stdout_offset: int = 0, stderr_offset: int = 0) -> OutputStream:
        """From an offset on until it ends; goes on by itself when the connection breaks."""
        query = {"stdout_offset": stdout_offset, "stderr_offset": stderr_offset}
        return OutputStream(self._caller, lambda last_id: self._caller.request(
            op.STREAM_OUTPUT, self._path, query=query, headers={"Last-Event-ID": last_id} if last_id else {}))

    def write(self, data: bytes | str, *, close: bool = False, timeout: float | None = None) -> None:
        """To its standard input; returns when all of it is taken."""
        body = data.encode() if isinstance(data, str) else data
        self._caller.call(op.WRITE_INPUT, self._path, query={"close": close}, headers=OCTETS, body=body,
                                timeout=timeout)

    def close_input(self) -> None:
        self.write(b"", close=True)

    def signal(self, signal: str | int = "TERM", *, tree: bool = False) -> None:
        self._caller.call(op.SIGNAL_PROCESS, self._path, body=SignalRequest(signal=signal, tree=tree))

    def resize(self, rows: int, cols: int) -> None:
        self._caller.call(op.RESIZE_PROCESS, self._path, body=ResizeRequest(rows=rows, cols=cols))

    def wait(self, timeout_seconds: float = 60.0) -> ProcessInfo:
        """Until it has ended, or the time is over: then `running` is true."""
        while True:
            seconds = min(timeout_seconds, WAIT_SECONDS_MAX)
            timeout_seconds -= seconds
            self.info = self._caller.call(op.WAIT_PROCESS, self._path, query={"timeout_seconds": seconds},
                                                timeout=self._caller.timeout + seconds)
            if not self.info.running or timeout_seconds <= 0:
                return self.info

    def remove(self) -> None:
        """Kills it with all it started, and forgets its output."""
        self._caller.call(op.REMOVE_PROCESS, self._path)


class Processes:
    """`sandbox.processes`."""

    def __init__(self, caller: Caller, sandbox: str) -> None:
        self._caller = caller
        self._id = sandbox

    def start(self, command: str | Sequence[str], *, env: Mapping[str, str] | None = None,
                    workdir: str | None = None, timeout_seconds: float | None = None, merge_stderr: bool | None = None,
                    terminal: bool | None = None, input: bool | None = None, rows: int | None = None,
                    cols: int | None = None) -> Process:
        line, argv = command_or_argv(command)
        body = ProcessRequest(command=line, argv=argv, env=env, workdir=workdir, timeout_seconds=timeout_seconds,
                              merge_stderr=merge_stderr, terminal=terminal, input=input, rows=rows, cols=cols)
        info = self._caller.call(op.START_PROCESS, {"id": self._id}, body=body)
        return Process(self._caller, self._id, info)

    def get(self, process: int) -> Process:
        info = self._caller.call(op.GET_PROCESS, {"id": self._id, "pid": process})
        return Process(self._caller, self._id, info)

    def list(self) -> List[Process]:
        answer = self._caller.call(op.LIST_PROCESSES, {"id": self._id})
        return [Process(self._caller, self._id, info) for info in answer.processes]

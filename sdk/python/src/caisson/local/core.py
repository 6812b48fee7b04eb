"""Making sandboxes and running commands in them, and reading capability files."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from caisson import _native
from caisson.local.errors import SandboxError
from caisson.local.models import CapabilityDeclaration, SandboxResult, SandboxStatus
from caisson.local.programs import find_program
from caisson.local.resources import ResourceMonitor

EXECUTE_TIMEOUT_SECONDS = 30.0
OUTPUT_BYTES_MAX = 1024 * 1024
_KILLED = 128 + 9


class CapabilityParser:
    """Capability files, as the command line reads them: an unknown field is an error that names the line."""

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> CapabilityDeclaration:
        return CapabilityDeclaration(**_native.parse_file(os.fspath(path)))

    @staticmethod
    def from_string(yaml_text: str) -> CapabilityDeclaration:
        """An empty text has every default."""
        return CapabilityDeclaration(**_native.parse(yaml_text))


@dataclass
class _Live:
    """What we know of a sandbox beside its id. The lock of the manager guards it."""

    capability: CapabilityDeclaration
    commands: int = 0  # that run now
    ran: bool = False  # one has ended


class SandboxManager:
    """Sandboxes of this process, from many threads; when the manager goes, so does everything it made.

    It starts one small launcher, which needs root. `current_folder` is shown inside at its own path, read-only or as
    the declaration says, and commands begin there; by default it is the current one, and None shows none. Folders that
    are never shown (`/`, home folders, `/etc`, `/var`, …) are replaced by an empty `/workspace`, with a warning where
    nobody asked for that one by name.
    """

    def __init__(
        self,
        *,
        program: str | os.PathLike[str] | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        current_folder: str | os.PathLike[str] | None = ".",
    ) -> None:
        place = _native.default_state_dir(os.geteuid()) if state_dir is None else os.fspath(state_dir)
        folder = None if current_folder is None else os.path.realpath(current_folder)
        if folder is not None:
            why = _native.refusal(folder, os.path.realpath(os.path.expanduser("~")), os.path.realpath(place))
            if why:
                message = f"the current folder is not shown inside: {folder} {why}; commands run in an empty /workspace"
                warnings.warn(message, stacklevel=2)
                folder = None
        self._lock = threading.Lock()
        self._live: dict[str, _Live] = {}
        self._manager = _native.Manager(find_program() if program is None else os.fspath(program), place, folder)

    def __enter__(self) -> SandboxManager:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Destroys every sandbox and ends the launcher. Commands that other threads wait for end with SandboxError."""
        self._manager.close()

    def create_sandbox(self, capability: CapabilityDeclaration | None = None) -> str:
        """Makes one, ready to run commands, and returns its id."""
        declared = CapabilityDeclaration() if capability is None else capability
        sandbox_id = self._manager.create_sandbox(declared)
        with self._lock:
            self._live[sandbox_id] = _Live(declared)
        return sandbox_id

    def execute(
        self,
        sandbox_id: str,
        command: Sequence[str],
        timeout: float | None = EXECUTE_TIMEOUT_SECONDS,
        *,
        env: Mapping[str, str] | None = None,
        input: str | bytes = b"",
        workdir: str | None = None,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
    ) -> SandboxResult:
        """Runs one command to its end. Commands of one sandbox may run at once; Ctrl-C ends the one that is awaited.

        No shell reads the command. `timeout` is in seconds, None for no end. `env` comes after the sandbox's own
        variables, `input` is its standard input. A limit that ends the command is a result, not an exception.
        """
        if isinstance(command, (str, bytes)):
            raise SandboxError(f"command: must be a list of words, found {command!r}", code="InvalidArgument")
        if timeout is not None and not timeout > 0:
            raise SandboxError(f"timeout: must be greater than 0, or None, found {timeout}", code="InvalidArgument")
        wish = {
            "timeout_ms": 0 if timeout is None else max(1, round(timeout * 1000)),
            "env": [f"{name}={value}" for name, value in (env or {}).items()],
            "input": input.encode() if isinstance(input, str) else input,
            "workdir": workdir,
            "output_bytes_max": output_bytes_max,
        }
        with self._running(sandbox_id):
            return _result(self._run(sandbox_id, [os.fspath(word) for word in command], wish))

    def destroy(self, sandbox_id: str) -> None:
        """Kills everything in it and removes every trace."""
        self._manager.destroy(sandbox_id)
        with self._lock:
            self._live.pop(sandbox_id, None)

    def status(self, sandbox_id: str) -> SandboxStatus:
        ended = self._manager.status(sandbox_id) != "running"
        with self._lock:
            live = self._find(sandbox_id)
            if ended:
                return SandboxStatus.failed
            if live.commands:
                return SandboxStatus.running
            return SandboxStatus.stopped if live.ran else SandboxStatus.created

    def list_sandboxes(self) -> list[dict[str, Any]]:
        """sandbox_id, status and tier of each, in the order in which they were made."""
        with self._lock:
            known = list(self._live.items())
        found = []
        for sandbox_id, live in known:
            try:
                status = self.status(sandbox_id).value
            except SandboxError:  # destroyed since
                continue
            found.append({"sandbox_id": sandbox_id, "status": status, "tier": live.capability.sandbox_tier.value})
        return found

    def monitor(self, sandbox_id: str) -> ResourceMonitor:
        """The account of this sandbox: tokens and cost that are recorded there are in its results."""
        native = self._manager.monitor(sandbox_id)
        with self._lock:
            return ResourceMonitor._of(self._find(sandbox_id).capability.resource_limits, native)

    def _run(self, sandbox_id: str, argv: list[str], wish: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._manager.execute(sandbox_id, argv, **wish)
        except SandboxError as error:
            # Debian and Ubuntu have python3 alone, and callers who come from a virtual environment say python.
            if error.code != "NotFound" or argv[:1] != ["python"]:
                raise
        return self._manager.execute(sandbox_id, ["python3", *argv[1:]], **wish)

    @contextlib.contextmanager
    def _running(self, sandbox_id: str) -> Iterator[None]:
        """Counts a command among those that run."""
        with self._lock:
            live = self._find(sandbox_id)
            live.commands += 1
        try:
            yield
        finally:
            with self._lock:
                live.commands -= 1
                live.ran = True

    def _find(self, sandbox_id: str) -> _Live:
        live = self._live.get(sandbox_id)
        if live is None:
            raise SandboxError(f"sandbox '{sandbox_id}' does not exist, or was destroyed", code="NotFound")
        return live


def _result(arguments: dict[str, Any]) -> SandboxResult:
    result = SandboxResult(**arguments)
    if result.breach:
        # A command that survived, because another process was chosen, has a status of its own.
        result.exit_code = -1 if result.exit_code == _KILLED else result.exit_code
        gap = "" if not result.stderr or result.stderr.endswith("\n") else "\n"
        result.stderr += f"{gap}[sandbox] killed: {result.breach}\n"
    return result

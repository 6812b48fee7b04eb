"""One sandbox: commands and tools in it, its files and processes, its life and its past."""

from __future__ import annotations

import base64
from types import TracebackType
from typing import Any, Mapping, Sequence, Type

from .. import _operations as op
from .._wire import ANSWER_BYTES_MAX, EVENT_STREAM, own_refusal
from ..errors import NotFoundError
from ..models import (AuditPage, CodeResult, Diff, ExecResult, Merged, PortAnswer, Ports, Preview, SandboxInfo, Snapshot,
                      ToolResult, Undone, Usage)
from ..requests import (CodeRequest, Encoding, ExecRequest, ForkRequest, LabelsRequest, Language, Limits, MergeRequest,
                        Network, PreviewRequest, PromoteRequest, SnapshotRequest, ToolRequest, UndoRequest, UsageRecord,
                        VisibilityRequest)
from .caller import AsyncCaller
from .contexts import AsyncCode, AsyncContexts
from .files import AsyncFiles
from .link import clock
from .processes import AsyncProcesses, command_or_argv
from .socket import AsyncCommand, AsyncTerminal, AsyncWebSocket
from .stream import AsyncCodeStream, AsyncCommandStream


class AsyncSandbox:
    """A sandbox of the server. As a block it is destroyed at its end; `info` is how it was when somebody last asked."""

    def __init__(self, caller: AsyncCaller, info: SandboxInfo) -> None:
        self._caller = caller
        self._path: dict[str, str | int] = {"id": info.id}
        self.id = info.id
        self.info = info
        self.files = AsyncFiles(caller, info.id)
        self.processes = AsyncProcesses(caller, info.id)
        self.contexts = AsyncContexts(caller, info.id)
        self._code = AsyncCode(caller, info.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.info.state}>"

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        try:
            await self.destroy()
        except NotFoundError:
            pass  # it has ended by itself

    # --- tools and commands

    async def execute(self, tool: str, /, **arguments: Any) -> ToolResult:
        """One call of a tool, such as `execute("shell_exec", command="ls")`. A denied one raises DeniedError."""
        wanted = arguments.get("timeout_seconds")
        body = ToolRequest(tool=tool, arguments=arguments)
        return await self._caller.call(op.EXECUTE_TOOL, self._path, body=body, timeout=self._patience(wanted))

    async def exec(self, command: str | Sequence[str], *, env: Mapping[str, str] | None = None,
                   workdir: str | None = None, stdin: str | bytes | None = None, timeout_seconds: float | None = None,
                   merge_stderr: bool | None = None, output_bytes_max: int | None = None,
                   encoding: Encoding | None = None) -> ExecResult:
        """Runs a command and waits for it. A string is a line for the shell, a list is a program and its arguments."""
        body = exec_request(command, env, workdir, stdin, timeout_seconds, merge_stderr, output_bytes_max, encoding)
        return await self._caller.call(op.EXEC, self._path, body=body, timeout=self._patience(timeout_seconds))

    def exec_stream(self, command: str | Sequence[str], *, env: Mapping[str, str] | None = None,
                    workdir: str | None = None, stdin: str | bytes | None = None,
                    timeout_seconds: float | None = None, merge_stderr: bool | None = None) -> AsyncCommandStream:
        """The output while it comes. Who leaves the block early kills the command."""
        body = exec_request(command, env, workdir, stdin, timeout_seconds, merge_stderr, None, None)
        return AsyncCommandStream(self._caller, lambda last_id: self._caller.request(
            op.EXEC, self._path, headers={"Accept": EVENT_STREAM}, body=body))

    def exec_interactive(self, command: str | Sequence[str], *, env: Mapping[str, str] | None = None,
                         workdir: str | None = None, timeout_seconds: float | None = None,
                         merge_stderr: bool | None = None) -> AsyncCommand:
        """A command with live input, over a WebSocket. It dies with the block."""
        wish = exec_request(command, env, workdir, None, timeout_seconds, merge_stderr, None, None)
        return AsyncCommand(self._caller, self._caller.request(op.EXEC_SOCKET, self._path), wish)

    async def run_code(self, code: str, language: Language = "python", *, env: Mapping[str, str] | None = None,
                       workdir: str | None = None, stdin: str | None = None, timeout_seconds: float | None = None,
                       output_bytes_max: int | None = None) -> CodeResult:
        """Runs code by itself in an interpreter that waits for it. To keep variables, use `contexts`."""
        return await self._code.run(CodeRequest(
            code=code, language=language, env=env, workdir=workdir, stdin=stdin, timeout_seconds=timeout_seconds,
            output_bytes_max=output_bytes_max))

    def run_code_stream(self, code: str, language: Language = "python", *, env: Mapping[str, str] | None = None,
                        workdir: str | None = None, stdin: str | None = None,
                        timeout_seconds: float | None = None) -> AsyncCodeStream:
        """The output while it comes. Who leaves the block early ends the run."""
        return self._code.stream(CodeRequest(code=code, language=language, env=env, workdir=workdir, stdin=stdin,
                                             timeout_seconds=timeout_seconds))

    def terminal(self, *, command: str | None = None, rows: int | None = None, cols: int | None = None,
                 term: str | None = None, process: int | None = None) -> AsyncTerminal:
        """A terminal, over a WebSocket; a login shell without a command. With `process`, one that was opened before."""
        query = {"rows": rows, "cols": cols, "command": command, "term": term, "process": process}
        return AsyncTerminal(self._caller, self._caller.request(op.OPEN_TERMINAL, self._path, query=query))

    def _patience(self, seconds: Any) -> float:
        """The client waits longer than the command may take: its end is the server's to tell."""
        return self._caller.timeout + (float(seconds) if isinstance(seconds, (int, float)) else 0.0)

    # --- its life

    async def refresh(self) -> SandboxInfo:
        return self._keep(await self._caller.call(op.GET_SANDBOX, self._path))

    async def destroy(self) -> None:
        """Every process in it is killed, and everything it wrote is removed."""
        await self._caller.call(op.DESTROY_SANDBOX, self._path)

    async def pause(self) -> SandboxInfo:
        """Freezes every process; memory stays."""
        return self._keep(await self._caller.call(op.PAUSE_SANDBOX, self._path))

    async def resume(self) -> SandboxInfo:
        return self._keep(await self._caller.call(op.RESUME_SANDBOX, self._path))

    async def hibernate(self) -> SandboxInfo:
        """Keeps its processes on disk and frees its memory. Whatever uses it wakes it."""
        return self._keep(await self._caller.call(op.HIBERNATE_SANDBOX, self._path))

    async def stop(self) -> SandboxInfo:
        """Ends the processes of a persistent sandbox; its files stay."""
        return self._keep(await self._caller.call(op.STOP_SANDBOX, self._path))

    async def start(self) -> SandboxInfo:
        return self._keep(await self._caller.call(op.START_SANDBOX, self._path))

    async def set_limits(self, limits: Limits) -> SandboxInfo:
        """What is not named stays."""
        return self._keep(await self._caller.call(op.SET_LIMITS, self._path, body=limits))

    async def set_network(self, network: Network) -> SandboxInfo:
        """All rules at once; they hold when this returns. An empty Network takes the network away."""
        return self._keep(await self._caller.call(op.SET_NETWORK, self._path, body=network))

    async def set_labels(self, labels: Mapping[str, str]) -> SandboxInfo:
        """Those that are named are set, the others stay; an empty value removes one."""
        return self._keep(await self._caller.call(op.SET_LABELS, self._path, body=LabelsRequest(labels=labels)))

    async def set_public(self, public: bool) -> SandboxInfo:
        """Whether everybody who knows the address may look at its previews."""
        return self._keep(await self._caller.call(op.SET_VISIBILITY, self._path, body=VisibilityRequest(public=public)))

    async def usage(self) -> Usage:
        return await self._caller.call(op.GET_USAGE, self._path)

    async def record_usage(self, *, tokens: int | None = None, cost_usd: float | None = None) -> Usage:
        """Counts what was used elsewhere into its budget."""
        return await self._caller.call(op.RECORD_USAGE, self._path, body=UsageRecord(tokens=tokens, cost_usd=cost_usd))

    async def logs(self, *, after: int | None = None, limit: int | None = None) -> AuditPage:
        """Its audit, oldest first."""
        return await self._caller.call(op.GET_SANDBOX_LOGS, self._path, query={"after": after, "limit": limit})

    def _keep(self, info: SandboxInfo) -> SandboxInfo:
        self.info = info
        return info

    # --- its files through time

    async def snapshot(self, name: str | None = None, *, labels: Mapping[str, str] | None = None,
                       memory: bool | None = None) -> Snapshot:
        """Keeps the files as they are now, and with `memory` the processes, too."""
        body = SnapshotRequest(name=name, labels=labels, memory=memory)
        return await self._caller.call(op.CREATE_SNAPSHOT, self._path, body=body)

    async def snapshots(self) -> list[Snapshot]:
        return (await self._caller.call(op.LIST_SANDBOX_SNAPSHOTS, self._path)).snapshots

    async def fork(self, name: str | None = None, *, labels: Mapping[str, str] | None = None,
                   hostname: str | None = None, memory: bool | None = None) -> AsyncSandbox:
        """A second sandbox on the same files, with the same limits, rules and tools."""
        body = ForkRequest(name=name, labels=labels, hostname=hostname, memory=memory)
        return AsyncSandbox(self._caller, await self._caller.call(op.FORK_SANDBOX, self._path, body=body))

    async def undo(self, calls: int | None = None, *, snapshot: str | None = None,
                   end_processes: bool | None = None) -> Undone:
        """Takes the files back: over the last so many calls, or to a snapshot of this sandbox."""
        body = UndoRequest(calls=calls, snapshot=snapshot, end_processes=end_processes)
        return await self._caller.call(op.UNDO, self._path, body=body)

    async def promote(self, tier: str, *, end_processes: bool | None = None) -> SandboxInfo:
        """Moves the sandbox into a stronger tier, with its files; its processes end."""
        body = PromoteRequest(tier=tier, end_processes=end_processes)
        return self._keep(await self._caller.call(op.PROMOTE_SANDBOX, self._path, body=body))

    async def merge(self, source: str, *, end_processes: bool | None = None) -> Merged:
        """Brings in what another state, such as `sandbox:ID` of a fork, has changed; by ConflictError nothing."""
        body = MergeRequest(from_=source, end_processes=end_processes)
        return await self._caller.call(op.MERGE, self._path, body=body)

    async def diff(self, since: str, *, path: str | None = None) -> Diff:
        """What is different here from another state, such as `snapshot:NAME`."""
        query = {"from": since, "to": f"sandbox:{self.id}", "path": path}
        return await self._caller.call(op.DIFF, query=query)

    # --- its ports

    async def ports(self) -> Ports:
        return await self._caller.call(op.LIST_PORTS, self._path)

    async def preview(self, port: int | None = None) -> Preview:
        """The address of a port as a web site of its own. Needs a server with a vhost."""
        return await self._caller.call(op.CREATE_PREVIEW, self._path, body=PreviewRequest(port=port))

    async def http(self, port: int, method: str = "GET", path: str = "", *, query: str = "", body: bytes | None = None,
                   headers: Mapping[str, str] | None = None, timeout: float | None = None) -> PortAnswer:
        """A request to a program that listens inside. Every status that it answers is a result."""
        operation = op.PROXIES.get(method.upper())
        if operation is None:
            raise ValueError(f"method is {method!r}: want one of {', '.join(op.PROXIES)}")
        request = self._caller.request(operation, self._port(port, path), raw_query=query, headers=headers or {},
                                       body=body)
        deadline = clock() + (self._caller.timeout if timeout is None else timeout)
        exchange, head = await self._caller.open(request, deadline, refused=lambda head: False)
        try:
            content = await exchange.read_all(deadline, ANSWER_BYTES_MAX)
        finally:
            exchange.close()
        refusal = own_refusal(head, content)
        if refusal is not None:
            raise refusal
        return PortAnswer(status=head.status, headers=head.fields, body=content)

    def websocket(self, port: int, path: str = "", *, query: str = "") -> AsyncWebSocket:
        """A WebSocket to a program that listens inside."""
        return AsyncWebSocket(self._caller, self._caller.request(op.PROXY_GET, self._port(port, path), raw_query=query))

    def _port(self, port: int, path: str) -> dict[str, str | int]:
        return {"id": self.id, "port": port, "path": path.lstrip("/")}


def exec_request(command: str | Sequence[str], env: Mapping[str, str] | None, workdir: str | None,
                  stdin: str | bytes | None, timeout_seconds: float | None, merge_stderr: bool | None,
                  output_bytes_max: int | None, encoding: Encoding | None) -> ExecRequest:
    line, argv = command_or_argv(command)
    binary = isinstance(stdin, bytes)
    text = base64.b64encode(stdin).decode() if isinstance(stdin, bytes) else stdin
    return ExecRequest(command=line, argv=argv, env=env, workdir=workdir, stdin=text,
                       stdin_encoding="base64" if binary else None, timeout_seconds=timeout_seconds,
                       merge_stderr=merge_stderr, output_bytes_max=output_bytes_max, encoding=encoding)

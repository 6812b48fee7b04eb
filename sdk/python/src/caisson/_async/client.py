"""The client: which server, who calls, how long to wait; and what is asked of the server as a whole."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, AsyncIterator, Literal, Mapping, Sequence, Type

from .. import _operations as op
from .._endpoint import find_endpoint
from .._wire import ANSWER_BYTES_MAX
from ..models import AuditPage, AuditRow, Diff, RunResult, Tool, Usage, Verdict
from ..requests import Encoding, RunRequest, SandboxConfig
from ..server_models import Health, Server
from .caller import AsyncCaller
from .link import clock
from .registry import AsyncImages, AsyncSecrets, AsyncSnapshots, AsyncTokens, AsyncUsers, AsyncVolumes
from .sandbox import AsyncSandbox, exec_request
from .stream import AsyncEventStream

TIMEOUT_SECONDS = 90.0  # more than the 60 a server gives a command that names no time
CONNECTIONS_MAX = 100
AUDIT_ROWS_MAX = 1000  # of one page
Outcome = Literal["allowed", "denied", "failed"]


class AsyncClient:
    """A server.

    Address and token are the arguments, then CAISSON_URL and CAISSON_TOKEN, then ~/.config/caisson/client.yaml, then
    http://127.0.0.1:8080 without a token. `timeout` is for a whole call, its repetitions included; of a command it
    counts beside the command's own time. `retries` is how often a call may be repeated where that is safe.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout: float = TIMEOUT_SECONDS,
                 retries: int = 2, connections_max: int = CONNECTIONS_MAX, tls: ssl.SSLContext | None = None) -> None:
        endpoint = find_endpoint(url, token)
        if endpoint.tls and tls is None:
            tls = ssl.create_default_context()
        self._caller = AsyncCaller(endpoint, tls if endpoint.tls else None, timeout, retries, connections_max)
        self.snapshots = AsyncSnapshots(self._caller)
        self.images = AsyncImages(self._caller)
        self.volumes = AsyncVolumes(self._caller)
        self.tokens = AsyncTokens(self._caller)
        self.users = AsyncUsers(self._caller)
        self.secrets = AsyncSecrets(self._caller)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._caller.endpoint.authority}>"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Sandboxes stay."""
        self._caller.close()

    # --- sandboxes

    async def run(self, command: str | Sequence[str], sandbox: SandboxConfig | None = None, *,
                  env: Mapping[str, str] | None = None, workdir: str | None = None, stdin: str | bytes | None = None,
                  timeout_seconds: float | None = None, merge_stderr: bool | None = None,
                  output_bytes_max: int | None = None, encoding: Encoding | None = None) -> RunResult:
        """One command in a sandbox that is made for it and gone with it, by one call."""
        body = exec_request(command, env, workdir, stdin, timeout_seconds, merge_stderr, output_bytes_max, encoding)
        patience = self._caller.timeout + (timeout_seconds or 0.0)
        return await self._caller.call(op.RUN, body=RunRequest(**vars(body), sandbox=sandbox), timeout=patience)

    def sandbox(self, config: SandboxConfig | None = None, **fields: Any) -> AsyncSandboxBlock:
        """A sandbox for a block: made at its beginning, destroyed at its end. Fields go before those of the config."""
        return AsyncSandboxBlock(self, _with(config, fields))

    async def create(self, config: SandboxConfig | None = None, **fields: Any) -> AsyncSandbox:
        """A sandbox that stays until somebody destroys it or its time is over."""
        info = await self._caller.call(op.CREATE_SANDBOX, body=_with(config, fields))
        return AsyncSandbox(self._caller, info)

    async def get(self, sandbox: str) -> AsyncSandbox:
        """One that is there already, by its id."""
        return AsyncSandbox(self._caller, await self._caller.call(op.GET_SANDBOX, {"id": sandbox}))

    async def sandboxes(self) -> list[AsyncSandbox]:
        """The living ones of your tenant, oldest first."""
        answer = await self._caller.call(op.LIST_SANDBOXES)
        return [AsyncSandbox(self._caller, info) for info in answer.sandboxes]

    async def usage(self, sandboxes: Sequence[str]) -> dict[str, Usage]:
        """Of at most 64, by id; those that are not there are left out."""
        return (await self._caller.call(op.LIST_USAGE, query={"ids": ",".join(sandboxes)})).usage

    async def tools(self) -> list[Tool]:
        return (await self._caller.call(op.LIST_TOOLS)).tools

    # --- states of files

    async def diff(self, source: str, target: str, *, path: str | None = None) -> Diff:
        """Between two states: `sandbox:ID`, `snapshot:NAME` or `image:REFERENCE`."""
        return await self._caller.call(op.DIFF, query={"from": source, "to": target, "path": path})

    async def patch(self, source: str, target: str, *, path: str | None = None) -> bytes:
        """The same as a patch for `git apply`."""
        query = {"from": source, "to": target, "path": path, "format": "patch"}
        deadline = clock() + self._caller.timeout
        exchange, _ = await self._caller.open(self._caller.request(op.DIFF, query=query), deadline)
        try:
            return await exchange.read_all(deadline, ANSWER_BYTES_MAX)
        finally:
            exchange.close()

    # --- what happened

    def events(self, *, sandbox: str | None = None, after: int | None = None) -> AsyncEventStream:
        """What happens to the sandboxes, as it happens, from behind the sequence `after` on."""
        query = {"sandbox": sandbox, "after": after}
        return AsyncEventStream(self._caller, lambda last_id: self._caller.request(
            op.STREAM_EVENTS, query=query, headers={"Last-Event-ID": last_id} if last_id else {}))

    async def audit(self, *, after: int | None = None, before: int | None = None, limit: int | None = None,
                    sandbox: str | None = None, action: str | None = None, outcome: Outcome | None = None,
                    tenant: str | None = None) -> AuditPage:
        """One page of it. `action` ending in a dot means all that begin with it."""
        query = {"after": after, "before": before, "limit": limit, "sandbox": sandbox, "action": action,
                 "outcome": outcome, "tenant": tenant}
        return await self._caller.call(op.QUERY_AUDIT, query=query)

    async def audit_rows(self, *, after: int = 0, sandbox: str | None = None, action: str | None = None,
                         outcome: Outcome | None = None, tenant: str | None = None) -> AsyncIterator[AuditRow]:
        """All rows behind a sequence, page by page."""
        while True:
            page = await self.audit(after=after, limit=AUDIT_ROWS_MAX, sandbox=sandbox, action=action, outcome=outcome,
                                    tenant=tenant)
            for row in page.rows:
                yield row
            if len(page.rows) < AUDIT_ROWS_MAX:
                return
            after = page.next_after

    async def verify_audit(self) -> Verdict:
        """Checks the chain; for administrators."""
        return await self._caller.call(op.VERIFY_AUDIT)

    # --- the server itself

    async def server(self) -> Server:
        """What it offers, and who is asking."""
        return await self._caller.call(op.GET_SERVER)

    async def health(self) -> Health:
        return await self._caller.call(op.GET_HEALTH)

    async def ready(self) -> bool:
        """Could a sandbox be created now? Otherwise ServerUnavailableError."""
        return (await self._caller.call(op.GET_READINESS)).status == "ready"

    async def metrics(self) -> str:
        """In the text format of Prometheus; for administrators."""
        return await self._caller.call(op.GET_METRICS)

    async def openapi(self) -> Mapping[str, Any]:
        """The contract as this server has it."""
        return (await self._caller.call(op.GET_OPENAPI)).extra

    async def docs(self) -> str:
        """The same as a page of HTML."""
        return await self._caller.call(op.GET_DOCS)


class AsyncSandboxBlock:
    """`with client.sandbox(…) as sandbox:`."""

    def __init__(self, client: AsyncClient, config: SandboxConfig) -> None:
        self._client = client
        self._config = config
        self._sandbox: AsyncSandbox | None = None

    async def __aenter__(self) -> AsyncSandbox:
        self._sandbox = await self._client.create(self._config)
        return self._sandbox

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._sandbox is not None:
            await self._sandbox.__aexit__(kind, error, trace)


def _with(config: SandboxConfig | None, fields: Mapping[str, Any]) -> SandboxConfig:
    return (config or SandboxConfig()).replaced(**fields)

# Made from _async/client.py by generate_sync.py: change it there.
"""The client: which server, who calls, how long to wait; and what is asked of the server as a whole."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Iterator, Literal, Mapping, Sequence, Type

from .. import _operations as op
from .._endpoint import find_endpoint
from .._wire import ANSWER_BYTES_MAX
from ..models import AuditPage, AuditRow, Diff, RunResult, Tool, Usage, Verdict
from ..requests import Encoding, RunRequest, SandboxConfig
from ..server_models import Health, Server
from .caller import Caller
from .link import clock
from .registry import Images, Secrets, Snapshots, Tokens, Users, Volumes
from .sandbox import Sandbox, exec_request
from .stream import EventStream

TIMEOUT_SECONDS = 90.0  # more than the 60 a server gives a command that names no time
CONNECTIONS_MAX = 100
AUDIT_ROWS_MAX = 1000  # of one page
Outcome = Literal["allowed", "denied", "failed"]


class Client:
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
        self._caller = Caller(endpoint, tls if endpoint.tls else None, timeout, retries, connections_max)
        self.snapshots = Snapshots(self._caller)
        self.images = Images(self._caller)
        self.volumes = Volumes(self._caller)
        self.tokens = Tokens(self._caller)
        self.users = Users(self._caller)
        self.secrets = Secrets(self._caller)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._caller.endpoint.authority}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Sandboxes stay."""
        self._caller.close()

    # --- sandboxes

    def run(self, command: str | Sequence[str], sandbox: SandboxConfig | None = None, *,
                  env: Mapping[str, str] | None = None, workdir: str | None = None, stdin: str | bytes | None = None,
                  timeout_seconds: float | None = None, merge_stderr: bool | None = None,
                  output_bytes_max: int | None = None, encoding: Encoding | None = None) -> RunResult:
        """One command in a sandbox that is made for it and gone with it, by one call."""
        body = exec_request(command, env, workdir, stdin, timeout_seconds, merge_stderr, output_bytes_max, encoding)
        patience = self._caller.timeout + (timeout_seconds or 0.0)
        return self._caller.call(op.RUN, body=RunRequest(**vars(body), sandbox=sandbox), timeout=patience)

    def sandbox(self, config: SandboxConfig | None = None, **fields: Any) -> SandboxBlock:
        """A sandbox for a block: made at its beginning, destroyed at its end. Fields go before those of the config."""
        return SandboxBlock(self, _with(config, fields))

    def create(self, config: SandboxConfig | None = None, **fields: Any) -> Sandbox:
        """A sandbox that stays until somebody destroys it or its time is over."""
        info = self._caller.call(op.CREATE_SANDBOX, body=_with(config, fields))
        return Sandbox(self._caller, info)

    def get(self, sandbox: str) -> Sandbox:
        """One that is there already, by its id."""
        return Sandbox(self._caller, self._caller.call(op.GET_SANDBOX, {"id": sandbox}))

    def sandboxes(self) -> list[Sandbox]:
        """The living ones of your tenant, oldest first."""
        answer = self._caller.call(op.LIST_SANDBOXES)
        return [Sandbox(self._caller, info) for info in answer.sandboxes]

    def usage(self, sandboxes: Sequence[str]) -> dict[str, Usage]:
        """Of at most 64, by id; those that are not there are left out."""
        return (self._caller.call(op.LIST_USAGE, query={"ids": ",".join(sandboxes)})).usage

    def tools(self) -> list[Tool]:
        return (self._caller.call(op.LIST_TOOLS)).tools

    # --- states of files

    def diff(self, source: str, target: str, *, path: str | None = None) -> Diff:
        """Between two states: `sandbox:ID`, `snapshot:NAME` or `image:REFERENCE`."""
        return self._caller.call(op.DIFF, query={"from": source, "to": target, "path": path})

    def patch(self, source: str, target: str, *, path: str | None = None) -> bytes:
        """The same as a patch for `git apply`."""
        query = {"from": source, "to": target, "path": path, "format": "patch"}
        deadline = clock() + self._caller.timeout
        exchange, _ = self._caller.open(self._caller.request(op.DIFF, query=query), deadline)
        try:
            return exchange.read_all(deadline, ANSWER_BYTES_MAX)
        finally:
            exchange.close()

    # --- what happened

    def events(self, *, sandbox: str | None = None, after: int | None = None) -> EventStream:
        """What happens to the sandboxes, as it happens, from behind the sequence `after` on."""
        query = {"sandbox": sandbox, "after": after}
        return EventStream(self._caller, lambda last_id: self._caller.request(
            op.STREAM_EVENTS, query=query, headers={"Last-Event-ID": last_id} if last_id else {}))

    def audit(self, *, after: int | None = None, before: int | None = None, limit: int | None = None,
                    sandbox: str | None = None, action: str | None = None, outcome: Outcome | None = None,
                    tenant: str | None = None) -> AuditPage:
        """One page of it. `action` ending in a dot means all that begin with it."""
        query = {"after": after, "before": before, "limit": limit, "sandbox": sandbox, "action": action,
                 "outcome": outcome, "tenant": tenant}
        return self._caller.call(op.QUERY_AUDIT, query=query)

    def audit_rows(self, *, after: int = 0, sandbox: str | None = None, action: str | None = None,
                         outcome: Outcome | None = None, tenant: str | None = None) -> Iterator[AuditRow]:
        """All rows behind a sequence, page by page."""
        while True:
            page = self.audit(after=after, limit=AUDIT_ROWS_MAX, sandbox=sandbox, action=action, outcome=outcome,
                                    tenant=tenant)
            for row in page.rows:
                yield row
            if len(page.rows) < AUDIT_ROWS_MAX:
                return
            after = page.next_after

    def verify_audit(self) -> Verdict:
        """Checks the chain; for administrators."""
        return self._caller.call(op.VERIFY_AUDIT)

    # --- the server itself

    def server(self) -> Server:
        """What it offers, and who is asking."""
        return self._caller.call(op.GET_SERVER)

    def health(self) -> Health:
        return self._caller.call(op.GET_HEALTH)

    def ready(self) -> bool:
        """Could a sandbox be created now? Otherwise ServerUnavailableError."""
        return (self._caller.call(op.GET_READINESS)).status == "ready"

    def metrics(self) -> str:
        """In the text format of Prometheus; for administrators."""
        return self._caller.call(op.GET_METRICS)

    def openapi(self) -> Mapping[str, Any]:
        """The contract as this server has it."""
        return (self._caller.call(op.GET_OPENAPI)).extra

    def docs(self) -> str:
        """The same as a page of HTML."""
        return self._caller.call(op.GET_DOCS)


class SandboxBlock:
    """`with client.sandbox(…) as sandbox:`."""

    def __init__(self, client: Client, config: SandboxConfig) -> None:
        self._client = client
        self._config = config
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Sandbox:
        self._sandbox = self._client.create(self._config)
        return self._sandbox

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._sandbox is not None:
            self._sandbox.__exit__(kind, error, trace)


def _with(config: SandboxConfig | None, fields: Mapping[str, Any]) -> SandboxConfig:
    return (config or SandboxConfig()).replaced(**fields)

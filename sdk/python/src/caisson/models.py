"""What a server answers."""

from __future__ import annotations

import base64
import datetime
from typing import Any, Dict, List, Literal

from ._model import Model, field
from .requests import Budget, Encoding, Filesystem, Interpreters, Language, Limits, NetworkRule, Scope


class NetworkState(Model):
    mode: Literal["none", "allowlist"]
    rules: List[NetworkRule]


class Record(Model):
    """Which walls hold."""

    tier: Literal["native", "gvisor", "microvm"]
    kernel: str
    landlock_abi: int
    seccomp: str
    groups: str
    quota: str
    snapshots: str
    ids: str
    network: str


class VolumeMount(Model):
    name: str
    path: str
    read_only: bool


class SandboxInfo(Model):
    """A sandbox as the server showed it at one moment."""

    id: str
    name: str
    state: Literal["creating", "running", "paused", "hibernated", "stopped", "ended"]
    resting: bool
    profile: str
    image: str
    tier: Literal["native", "gvisor", "microvm"]
    tools: List[str]
    filesystem: Filesystem
    resource_limits: Limits
    user: int
    root_capabilities: bool
    workdir: str
    hostname: str
    budget: Budget
    labels: Dict[str, str]
    public: bool
    created_at: datetime.datetime
    expires_at: datetime.datetime | None
    network: NetworkState
    record: Record
    parent: str
    storage: Literal["memory", "disk"]
    persistent: bool
    checkpoint: Literal["none", "each_call"]
    volumes: List[VolumeMount]
    interpreters: Interpreters
    end_reason: str


class NetworkUsage(Model):
    connections: int
    open: int
    allowed: int
    denied: int
    bytes_up: int
    bytes_down: int


class Usage(Model):
    cpu_seconds: float
    memory_bytes: int
    memory_peak_bytes: int
    oom_kills: int
    processes: int
    io_read_bytes: int
    io_write_bytes: int
    wall_seconds: float
    execs: int
    tokens: int
    cost_usd: float
    network: NetworkUsage


class Tool(Model):
    name: str
    description: str = ""
    arguments: Dict[str, Any] = {}


class ToolResult(Model):
    """What a tool gave. The properties are those of the five tools; `result` has all of it."""

    tool: str
    success: bool
    result: Dict[str, Any]
    duration_ms: float

    @property
    def stdout(self) -> str:
        return str(self.result.get("stdout", ""))

    @property
    def stderr(self) -> str:
        return str(self.result.get("stderr", ""))

    @property
    def exit_code(self) -> int | None:
        return self.result.get("exit_code")

    @property
    def timed_out(self) -> bool:
        return bool(self.result.get("timed_out", False))

    @property
    def content(self) -> str:
        """Of file_read."""
        return str(self.result.get("content", ""))

    @property
    def entries(self) -> list[Dict[str, Any]]:
        """Of file_list."""
        return list(self.result.get("entries", ()))

    def __getitem__(self, name: str) -> Any:
        return self.result[name]


class ExecResult(Model):
    """How a command ended. One that failed or ran out of time is a result, not an exception."""

    exit_code: int
    signal: int
    stdout: str
    stderr: str
    encoding: Encoding
    stdout_lost_bytes: int
    stderr_lost_bytes: int
    timed_out: bool
    oom_killed: bool
    duration_ms: float
    cpu_ms: float
    peak_memory_bytes: int

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def stdout_bytes(self) -> bytes:
        """Exact with `encoding="base64"`; of text, its UTF-8."""
        return base64.b64decode(self.stdout) if self.encoding == "base64" else self.stdout.encode()

    @property
    def stderr_bytes(self) -> bytes:
        return base64.b64decode(self.stderr) if self.encoding == "base64" else self.stderr.encode()


class RunResult(ExecResult):
    """The same of a command that had a sandbox of its own."""

    sandbox: str  # its id, by which the audit knows it: it is gone


class Exit(Model):
    """The end of a command that was followed."""

    exit_code: int | None
    signal: int
    timed_out: bool
    oom_killed: bool


class Output(Model):
    """Some bytes that a command wrote."""

    stream: Literal["stdout", "stderr"]
    data: bytes
    offset: int = 0
    lost: int = 0  # bytes before these that nobody can read any more

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class OutputRange(Model):
    begin: int
    end: int


class ProcessInfo(Model):
    id: int
    pid: int
    running: bool
    terminal: bool
    command: str
    age_seconds: float
    stdout: OutputRange
    stderr: OutputRange
    exit_code: int | None
    signal: int
    timed_out: bool
    oom_killed: bool


class SnapshotMemory(Model):
    """Of a snapshot that has processes."""

    bytes: int
    runtime: str


class Snapshot(Model):
    id: str
    name: str
    sandbox: str
    parent: str
    image: str
    kind: Literal["stacked", "cow", "copied"]
    consistency: str
    durable: bool
    checkpoint: bool
    bytes: int
    layers: int
    created_at: datetime.datetime
    labels: Dict[str, str]
    memory: SnapshotMemory | None


class Undone(Model):
    snapshot: str
    calls: int
    left: int


class Change(Model):
    kind: Literal["added", "modified", "removed", "type_changed", "mode"]
    path: str
    mode: str
    size: int


class Merged(Model):
    base: str
    applied: List[Change]


class Diff(Model):
    from_: str = field(name="from")
    to: str
    path: str
    changes: List[Change]
    truncated: bool


class FileEntry(Model):
    path: str
    name: str
    type: Literal["file", "folder", "link", "fifo", "socket", "device", "other"]
    size: int
    mode: str
    uid: int
    gid: int
    modified_at: datetime.datetime
    links: int
    target: str = ""
    etag: str = ""


class FileList(Model):
    path: str
    entries: List[FileEntry]


class FileHead(Model):
    """What HEAD says of a file."""

    size: int
    etag: str
    content_type: str


class Written(Model):
    path: str
    size: int
    etag: str


class Removed(Model):
    path: str
    removed: int


class Unpacked(Model):
    path: str
    bytes: int
    entries: int


class Made(Model):
    path: str


class Moved(Model):
    from_: str = field(name="from")
    to: str


class FileChange(Model):
    """A change below a watched path."""

    changes: List[str]  # created, changed, removed, moved_from, moved_to, overflow
    path: str  # relative to the watched one
    folder: bool
    cookie: int  # joins the two halves of a move


class Event(Model):
    """Something that happened to a sandbox."""

    sequence: int
    time: datetime.datetime
    type: str
    sandbox: str
    data: Dict[str, Any]


class AuditRow(Model):
    sequence: int
    time: datetime.datetime
    tenant: str
    actor: str
    action: str
    sandbox: str
    object: str
    outcome: Literal["allowed", "denied", "failed"]
    detail: Dict[str, Any]
    request_id: str
    previous: str
    hash: str


class AuditPage(Model):
    rows: List[AuditRow]
    next_after: int


class Verdict(Model):
    intact: bool
    rows: int
    head: str
    bad_row: int | None
    reason: str


class Preview(Model):
    port: int | None
    url: str
    invitation: str
    expires_at: datetime.datetime


class Ports(Model):
    exposed: List[int]
    listening: List[int]


class PortAnswer(Model):
    """What the program behind a port of a sandbox answered."""

    status: int
    headers: Dict[str, str]  # names in lower case
    body: bytes


class SandboxList(Model):
    sandboxes: List[SandboxInfo]


class UsageList(Model):
    usage: Dict[str, Usage]


class SnapshotList(Model):
    snapshots: List[Snapshot]


class ToolList(Model):
    tools: List[Tool]


class CodeOutput(Model):
    """Something that code has shown, in several forms of the same, by media type."""

    main: bool
    data: Dict[str, Any]

    @property
    def png(self) -> bytes | None:
        """A plot or picture."""
        data = self.data.get("image/png")
        return None if data is None else base64.b64decode(data)


class CodeError(Model):
    name: str
    value: str
    traceback: str


class CodeResult(Model):
    """What a piece of code came to. An error in it is a result, not an exception."""

    exit_code: int
    value: str | None
    outputs: List[CodeOutput]
    outputs_truncated: bool
    error: CodeError | None
    stdout: str
    stderr: str
    stdout_lost_bytes: int
    stderr_lost_bytes: int
    timed_out: bool
    context_ended: bool
    duration_ms: float
    run_ms: float
    warnings: List[str]

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and self.error is None and not self.timed_out

    @property
    def pngs(self) -> list[bytes]:
        """Every picture that was shown."""
        return [png for one in self.outputs if (png := one.png) is not None]


class ContextInfo(Model):
    id: str
    language: Language
    workdir: str
    created_at: datetime.datetime
    busy: bool
    runs: int


class ContextList(Model):
    contexts: List[ContextInfo]


class ProcessList(Model):
    processes: List[ProcessInfo]

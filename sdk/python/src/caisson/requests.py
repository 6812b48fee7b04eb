"""What is asked of a server. Every field that is left out is the profile's, then the server's."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Mapping, Sequence

from ._model import Model, field

Scope = Literal["read", "use", "create", "admin"]
Encoding = Literal["text", "base64"]
Language = Literal["python", "javascript"]


class Limits(Model):
    """Limits of a sandbox; in an answer None is "no limit"."""

    cpu: float | None = None
    memory_mb: float | None = None
    processes: int | None = None
    disk_mb: float | None = None
    disk_files: int | None = None
    open_files: int | None = None
    cpu_seconds: float | None = None
    timeout_seconds: float | None = None
    idle_seconds: float | None = None
    rest_seconds: float | None = None


class Inject(Model):
    """A header that is set outside of the sandbox, with a secret that it never sees."""

    header: str
    secret: str
    prefix: str | None = None


class NetworkRule(Model):
    """Where a sandbox may go."""

    domain: str
    ports: List[int] | None = None
    rate_limit_per_min: int | None = None
    apex: bool | None = None
    methods: List[str] | None = None
    path_prefixes: List[str] | None = None
    max_bytes: int | None = None
    granted_addresses: List[str] | None = None
    inspect: bool | None = None
    otherwise: bool | None = None
    inject: List[Inject] | None = None


class Network(Model):
    """The whole policy of a sandbox's network. Nothing leaves that no rule allows."""

    mode: Literal["none", "allowlist"] | None = None
    domain_allowlist: List[str] | None = None
    rules: List[NetworkRule] | None = None
    token: bool | None = None


class Filesystem(Model):
    root: Literal["read_only", "writable"] | None = None


class Budget(Model):
    """What the calls of language models may use."""

    max_tokens: int | None = None
    max_cost_usd: float | None = None
    on_exceed: Literal["refuse", "stop"] | None = None


class VolumeUse(Model):
    name: str
    path: str
    read_only: bool | None = None


class Interpreter(Model):
    """What an interpreter has imported before the first run, and whether it starts with the sandbox."""

    warm: bool | None = None
    imports: List[str] | None = None


class Interpreters(Model):
    python: Interpreter | None = None
    javascript: Interpreter | None = None


class SandboxConfig(Model):
    """What a sandbox shall be. Every field is optional."""

    profile: str | None = None
    name: str | None = None
    base_image: str | None = None
    image: str | None = None
    snapshot: str | None = None
    memory: bool | None = None
    storage: Literal["memory", "disk"] | None = None
    persistent: bool | None = None
    checkpoint: Literal["none", "each_call"] | None = None
    volumes: Sequence[VolumeUse] | None = None
    tier: str | None = None
    tools: Sequence[str] | None = None
    files: Mapping[str, str] | None = None
    network: Network | None = None
    resource_limits: Limits | None = None
    filesystem: Filesystem | None = None
    env: Mapping[str, str] | None = None
    workdir: str | None = None
    user: int | None = None
    root_capabilities: bool | None = None
    hostname: str | None = None
    budget: Budget | None = None
    labels: Mapping[str, str] | None = None
    interpreters: Interpreters | None = None


class ExecRequest(Model):
    command: str | None = None
    argv: Sequence[str] | None = None
    env: Mapping[str, str] | None = None
    workdir: str | None = None
    stdin: str | None = None
    stdin_encoding: Encoding | None = None
    timeout_seconds: float | None = None
    merge_stderr: bool | None = None
    output_bytes_max: int | None = None
    encoding: Encoding | None = None


class RunRequest(ExecRequest):
    """A command, and the sandbox that is made for it."""

    sandbox: SandboxConfig | None = None

class CodeRequest(Model):
    code: str
    language: Language | None = None
    context: str | None = None
    env: Mapping[str, str] | None = None
    workdir: str | None = None
    stdin: str | None = None
    timeout_seconds: float | None = None
    output_bytes_max: int | None = None


class ContextRequest(Model):
    language: Language | None = None
    imports: Sequence[str] | None = None
    env: Mapping[str, str] | None = None
    workdir: str | None = None


class ProcessRequest(Model):
    command: str | None = None
    argv: Sequence[str] | None = None
    env: Mapping[str, str] | None = None
    workdir: str | None = None
    timeout_seconds: float | None = None
    merge_stderr: bool | None = None
    terminal: bool | None = None
    input: bool | None = None
    rows: int | None = None
    cols: int | None = None


class ToolRequest(Model):
    tool: str
    arguments: Dict[str, Any] | None = None


class UsageRecord(Model):
    tokens: int | None = None
    cost_usd: float | None = None


class SnapshotRequest(Model):
    name: str | None = None
    labels: Mapping[str, str] | None = None
    memory: bool | None = None


class ForkRequest(Model):
    name: str | None = None
    labels: Mapping[str, str] | None = None
    hostname: str | None = None
    memory: bool | None = None


class UndoRequest(Model):
    calls: int | None = None
    snapshot: str | None = None
    end_processes: bool | None = None


class PromoteRequest(Model):
    tier: str
    end_processes: bool | None = None


class MergeRequest(Model):
    from_: str = field(name="from")
    end_processes: bool | None = None


class MkdirRequest(Model):
    path: str
    parents: bool | None = None


class MoveRequest(Model):
    from_: str = field(name="from")
    to: str
    replace: bool | None = None


class SignalRequest(Model):
    signal: str | int
    tree: bool | None = None


class ResizeRequest(Model):
    rows: int
    cols: int


class LabelsRequest(Model):
    labels: Mapping[str, str]


class VisibilityRequest(Model):
    public: bool


class PreviewRequest(Model):
    port: int | None = None


class PullRequest(Model):
    reference: str
    platform: str | None = None
    username: str | None = None
    password: str | None = None
    refresh: bool | None = None


class BuildRequest(Model):
    reference: str
    snapshot: str
    entrypoint: Sequence[str] | None = None
    command: Sequence[str] | None = None
    workdir: str | None = None
    user: str | None = None
    labels: Mapping[str, str] | None = None


class VolumeRequest(Model):
    bytes: int


class TokenRequest(Model):
    scopes: Sequence[Scope]
    tenant: str | None = None
    label: str | None = None
    expires_seconds: float | None = None
    max_sandboxes: int | None = None
    taken_over: str | None = None


class UserRequest(Model):
    name: str | None = None
    email: str | None = None
    login: str | None = None
    avatar_url: str | None = None


class SecretRequest(Model):
    value: str


class ImportRequest(Model):
    """The list of a sandboxer server, as it said it."""

    tenant: str
    sandboxes: Sequence[Mapping[str, Any]] | None = None
    executions: Sequence[Mapping[str, Any]] | None = None

"""The declaration of what a sandbox may do, and the result of a command: plain values.

Every field has the default of an empty capability file. A value is judged when it is built (ValueError, naming the
field), and the whole once more when a sandbox is made of it, because fields can be changed in between.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from caisson import _native

_Model = TypeVar("_Model")
_OWN_TIERS = {"native": "seccomp", "microvm": "firecracker"}


class SandboxTier(str, enum.Enum):
    """What separates a sandbox from the host. `native` and `microvm` are other words for the first and the last."""

    seccomp = "seccomp"
    gvisor = "gvisor"
    firecracker = "firecracker"

    @classmethod
    def _missing_(cls, value: object) -> SandboxTier | None:
        word = _OWN_TIERS.get(value) if isinstance(value, str) else None
        return cls(word) if word else None


class FilesystemMode(str, enum.Enum):
    """What may be done with files. `read_write` writes below `writable_paths`, or everywhere when there are none."""

    read_only = "read_only"
    read_write = "read_write"
    none = "none"


class SandboxStatus(str, enum.Enum):
    """Where a sandbox is in its life. One that is `failed` has ended; destroy it."""

    created = "created"
    running = "running"
    stopped = "stopped"
    failed = "failed"


def _as(kind: type[_Model], value: Any) -> _Model:
    """A nested value may come as a mapping, as a file has it."""
    return kind(**value) if isinstance(value, Mapping) else value


@dataclass(kw_only=True)
class HeaderInjection:
    """A header that is added outside of the sandbox, which never sees the secret."""

    header: str
    secret: str
    prefix: str = ""


@dataclass(kw_only=True)
class NetworkEgressRule:
    """One way out: a name, or `*.` and a name, and the ports of it that may be reached (none: all)."""

    domain: str
    ports: list[int] = field(default_factory=list)
    rate_limit_per_min: int = 60
    methods: list[str] = field(default_factory=list)
    path_prefixes: list[str] = field(default_factory=list)
    max_bytes: int = 0
    granted_addresses: list[str] = field(default_factory=list)
    inject: list[HeaderInjection] = field(default_factory=list)
    inspect: bool = False

    def __post_init__(self) -> None:
        self.inject = [_as(HeaderInjection, one) for one in self.inject]
        _native.check_rule(self)


@dataclass(kw_only=True)
class FilesystemConfig:
    """What the sandbox may read and write."""

    mode: FilesystemMode = FilesystemMode.read_only
    writable_paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mode = FilesystemMode(self.mode)
        _native.check_filesystem(self)


@dataclass(kw_only=True)
class ResourceLimits:
    """Limits of one sandbox: memory in MiB, CPU seconds of the whole process tree, and what models may cost."""

    max_memory_mb: int = 512
    max_cpu_seconds: float = 30.0
    max_cost_usd: float = 0.10
    max_tokens: int = 100_000

    def __post_init__(self) -> None:
        _native.check_limits(self)


@dataclass(kw_only=True)
class CapabilityDeclaration:
    """What a sandbox may do. Without any argument: no network, nothing writable, no variable, no further process."""

    sandbox_tier: SandboxTier = SandboxTier.seccomp
    network_egress_rules: list[NetworkEgressRule] = field(default_factory=list)
    filesystem_config: FilesystemConfig = field(default_factory=FilesystemConfig)
    resource_limits: ResourceLimits = field(default_factory=ResourceLimits)
    permissions: list[str] = field(default_factory=list)
    env_allowlist: list[str] | None = None

    def __post_init__(self) -> None:
        self.sandbox_tier = SandboxTier(self.sandbox_tier)
        self.network_egress_rules = [_as(NetworkEgressRule, rule) for rule in self.network_egress_rules]
        self.filesystem_config = _as(FilesystemConfig, self.filesystem_config)
        self.resource_limits = _as(ResourceLimits, self.resource_limits)
        _native.check_capability(self)


@dataclass(kw_only=True)
class SandboxResult:
    """What a command did.

    `exit_code` is its own, 128 + N when signal N ended it, and -1 when a limit did: `breach` then says which one, its
    value and the use, and so does the last line of `stderr`. `resource_usage` has cpu_seconds, peak_memory_mb,
    tokens_used, cost_usd and elapsed_seconds. Of an output that is longer than was asked for, head and tail are kept,
    and `stdout_lost` and `stderr_lost` count the bytes between them.
    """

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    duration_ms: float = 0.0
    resource_usage: dict[str, Any] = field(default_factory=dict)
    stdout_lost: int = 0
    stderr_lost: int = 0
    timed_out: bool = False
    oom_killed: bool = False
    breach: str = ""

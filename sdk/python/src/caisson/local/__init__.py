"""Sandboxes without a server: the C++ library, by the names of AumAI Sandbox.

    from caisson import CapabilityDeclaration, ResourceLimits, SandboxManager

    manager = SandboxManager()
    sandbox = manager.create_sandbox(CapabilityDeclaration(resource_limits=ResourceLimits(max_cpu_seconds=5.0)))
    result = manager.execute(sandbox, ["python3", "-c", "print('hello')"])
    manager.destroy(sandbox)

What is declared is enforced by the kernel and by the gate on the way out, or refused with the reason. Everything here
is safe from many threads, and no call that waits holds the interpreter's lock.

Start at core.py (SandboxManager, CapabilityParser). models.py has the declaration; network.py, filesystem.py and
resources.py answer questions about it. What is allowed is judged by the library alone: the Python here keeps values
and asks.
"""

try:
    from caisson import _native as _native
except ImportError as _missing:
    raise ImportError(
        "sandboxes without a server need the compiled module caisson._native, which is not in this installation "
        f"({_missing}); build it from a checkout with CAISSON_BUILD=$PWD/build pip install ./sdk/python after ./dev "
        "build, or use caisson.Client with a server",
        name="caisson._native",
    ) from _missing

from caisson.local.core import CapabilityParser, SandboxManager
from caisson.local.errors import CapabilityParseError, SandboxError
from caisson.local.filesystem import FilesystemPolicy, validate_path_access
from caisson.local.models import (
    CapabilityDeclaration,
    FilesystemConfig,
    FilesystemMode,
    HeaderInjection,
    NetworkEgressRule,
    ResourceLimits,
    SandboxResult,
    SandboxStatus,
    SandboxTier,
)
from caisson.local.network import EgressDecision, EgressFilter, check_egress
from caisson.local.resources import ResourceMonitor, check_limits

__all__ = [
    "CapabilityDeclaration",
    "CapabilityParseError",
    "CapabilityParser",
    "EgressDecision",
    "EgressFilter",
    "FilesystemConfig",
    "FilesystemMode",
    "FilesystemPolicy",
    "HeaderInjection",
    "NetworkEgressRule",
    "ResourceLimits",
    "ResourceMonitor",
    "SandboxError",
    "SandboxManager",
    "SandboxResult",
    "SandboxStatus",
    "SandboxTier",
    "check_egress",
    "check_limits",
    "validate_path_access",
]

"""caisson: run untrusted code in sandboxes.

    import caisson

    with caisson.Client() as client, client.sandbox(tools=["shell_exec"]) as sandbox:
        print(sandbox.exec("echo hello").stdout)

`Client` and `AsyncClient` speak to a server; `SandboxManager` and its kin are the local library, which needs none.
Every name is loaded when it is first used, so the import itself costs next to nothing, and the client works where the
compiled part of the local library is not there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# name → the module that has it
_CLIENT_NAMES = {
    "Client": "_sync.client", "Sandbox": "_sync.sandbox", "Process": "_sync.processes", "Terminal": "_sync.socket",
    "AsyncClient": "_async.client", "AsyncSandbox": "_async.sandbox", "AsyncProcess": "_async.processes",
    "AsyncTerminal": "_async.socket", "Context": "_sync.contexts", "AsyncContext": "_async.contexts",
    "Interpreter": "requests", "Interpreters": "requests",
    "CodeResult": "models", "CodeOutput": "models", "CodeError": "models", "ContextInfo": "models",
    "SandboxConfig": "requests", "Limits": "requests", "Network": "requests", "NetworkRule": "requests",
    "Inject": "requests", "Filesystem": "requests", "Budget": "requests", "VolumeUse": "requests",
    "SandboxInfo": "models", "ProcessInfo": "models", "ExecResult": "models", "RunResult": "models", "ToolResult": "models",
    "Output": "models", "Exit": "models", "Snapshot": "models", "Usage": "models", "FileEntry": "models",
    "FileChange": "models", "Event": "models", "AuditRow": "models",
    "ConfigurationError": "_endpoint",
}
_ERROR_NAMES = (
    "AlreadyExistsError", "ApiError", "BadAnswerError", "BusyError", "CaissonError", "CallTimedOutError",
    "ConflictError", "ConnectionFailedError", "ConnectionLostError", "DeniedError", "ExhaustedError", "GoneError",
    "InternalError", "InvalidArgumentError", "LauncherGoneError", "MethodNotAllowedError", "MisdirectedHostError",
    "NotFoundError", "PreconditionFailedError", "ProtocolError", "RangeNotSatisfiableError",
    "ServerUnavailableError", "StoppingError", "StoreFullError", "TimedOutError", "TooLargeError",
    "UnauthenticatedError", "UnsupportedError", "UnsupportedMediaTypeError", "UpgradeRequiredError",
)
_LOCAL_NAMES = (
    "CapabilityDeclaration", "CapabilityParseError", "CapabilityParser", "EgressDecision", "EgressFilter",
    "FilesystemConfig", "FilesystemMode", "FilesystemPolicy", "HeaderInjection", "NetworkEgressRule", "ResourceLimits",
    "ResourceMonitor", "SandboxError", "SandboxManager", "SandboxResult", "SandboxStatus", "SandboxTier",
    "check_egress", "check_limits", "validate_path_access",
)
_WHERE = {**_CLIENT_NAMES, **dict.fromkeys(_ERROR_NAMES, "errors"), **dict.fromkeys(_LOCAL_NAMES, "local")}

if TYPE_CHECKING:
    from ._async.client import AsyncClient as AsyncClient
    from ._async.contexts import AsyncContext as AsyncContext
    from ._async.processes import AsyncProcess as AsyncProcess
    from ._async.sandbox import AsyncSandbox as AsyncSandbox
    from ._async.socket import AsyncTerminal as AsyncTerminal
    from ._endpoint import ConfigurationError as ConfigurationError
    from ._sync.client import Client as Client
    from ._sync.contexts import Context as Context
    from ._sync.processes import Process as Process
    from ._sync.sandbox import Sandbox as Sandbox
    from ._sync.socket import Terminal as Terminal
    from .errors import *
    from .local import *
    from .models import AuditRow as AuditRow
    from .models import CodeError as CodeError
    from .models import CodeOutput as CodeOutput
    from .models import CodeResult as CodeResult
    from .models import ContextInfo as ContextInfo
    from .models import Event as Event
    from .models import ExecResult as ExecResult
    from .models import Exit as Exit
    from .models import FileChange as FileChange
    from .models import FileEntry as FileEntry
    from .models import Output as Output
    from .models import ProcessInfo as ProcessInfo
    from .models import RunResult as RunResult
    from .models import SandboxInfo as SandboxInfo
    from .models import Snapshot as Snapshot
    from .models import ToolResult as ToolResult
    from .models import Usage as Usage
    from .requests import Budget as Budget
    from .requests import Filesystem as Filesystem
    from .requests import Inject as Inject
    from .requests import Interpreter as Interpreter
    from .requests import Interpreters as Interpreters
    from .requests import Limits as Limits
    from .requests import Network as Network
    from .requests import NetworkRule as NetworkRule
    from .requests import SandboxConfig as SandboxConfig
    from .requests import VolumeUse as VolumeUse

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is not None:
        value = getattr(import_module(f"{__name__}.{where}"), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("caisson")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next time it is simply there
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Every operation of the contract, api/openapi.yaml, as one line: sdk/python/tests compares the two, field by field.

`answer` says what comes back: a model, bytes, text, nothing, a stream of events or a WebSocket. `keyed`: the server
takes an Idempotency-Key there, so a call whose answer was lost may be asked again.
"""

from __future__ import annotations

from typing import Generic, Tuple, Type, TypeVar

from . import models as m
from . import requests as r
from . import server_models as s
from ._model import Model

T = TypeVar("T")


class Events:
    """The answer is a stream of server-sent events."""


class Socket:
    """The answer is a WebSocket."""


class Nothing:
    """The answer has no body."""


class Operation(Generic[T]):
    def __init__(self, name: str, method: str, path: str, answer: Type[T],
                 body: Type[Model] | Type[bytes] | None = None, query: Tuple[str, ...] = (),
                 *, keyed: bool = False, streams: bool = False) -> None:
        self.name = name
        self.method = method
        self.path = path
        self.answer = answer
        self.body = body
        self.query = query
        self.keyed = keyed
        self.streams = streams  # with Accept: text/event-stream the same route answers with events
        # Done twice it is as if it had been done once, and says the same. Opening a socket starts something; a file
        # that is removed twice is not found the second time.
        by_nature = method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS") or name == "setLimits"
        self.repeatable = by_nature and answer is not Socket and name != "removeFile"


_V = "/api/v1"
_BOX = _V + "/sandboxes/{id}"
_PROCESS = _BOX + "/processes/{pid}"
_CONTEXT = _BOX + "/contexts/{context}"
_PORT = _BOX + "/ports/{port}/{path}"

# --- sandboxes
CREATE_SANDBOX = Operation("createSandbox", "POST", _V + "/sandboxes", m.SandboxInfo, r.SandboxConfig, keyed=True)
LIST_SANDBOXES = Operation("listSandboxes", "GET", _V + "/sandboxes", m.SandboxList)
GET_SANDBOX = Operation("getSandbox", "GET", _BOX, m.SandboxInfo)
DESTROY_SANDBOX = Operation("destroySandbox", "DELETE", _BOX, Nothing)
SET_LIMITS = Operation("setLimits", "PATCH", _BOX + "/limits", m.SandboxInfo, r.Limits)
SET_NETWORK = Operation("setNetwork", "PUT", _BOX + "/network", m.SandboxInfo, r.Network)
GET_USAGE = Operation("getUsage", "GET", _BOX + "/usage", m.Usage)
LIST_USAGE = Operation("listUsage", "GET", _V + "/usage", m.UsageList, query=("ids",))
RECORD_USAGE = Operation("recordUsage", "POST", _BOX + "/usage/record", m.Usage, r.UsageRecord, keyed=True)
PAUSE_SANDBOX = Operation("pauseSandbox", "POST", _BOX + "/pause", m.SandboxInfo, keyed=True)
RESUME_SANDBOX = Operation("resumeSandbox", "POST", _BOX + "/resume", m.SandboxInfo, keyed=True)
HIBERNATE_SANDBOX = Operation("hibernateSandbox", "POST", _BOX + "/hibernate", m.SandboxInfo, keyed=True)
STOP_SANDBOX = Operation("stopSandbox", "POST", _BOX + "/stop", m.SandboxInfo, keyed=True)
START_SANDBOX = Operation("startSandbox", "POST", _BOX + "/start", m.SandboxInfo, keyed=True)
SET_LABELS = Operation("setLabels", "PUT", _BOX + "/labels", m.SandboxInfo, r.LabelsRequest)
SET_VISIBILITY = Operation("setVisibility", "PUT", _BOX + "/visibility", m.SandboxInfo, r.VisibilityRequest)
CREATE_PREVIEW = Operation("createPreview", "POST", _BOX + "/previews", m.Preview, r.PreviewRequest)

# --- files through time
CREATE_SNAPSHOT = Operation("createSnapshot", "POST", _BOX + "/snapshots", m.Snapshot, r.SnapshotRequest, keyed=True)
LIST_SANDBOX_SNAPSHOTS = Operation("listSandboxSnapshots", "GET", _BOX + "/snapshots", m.SnapshotList)
LIST_SNAPSHOTS = Operation("listSnapshots", "GET", _V + "/snapshots", m.SnapshotList)
GET_SNAPSHOT = Operation("getSnapshot", "GET", _V + "/snapshots/{id}", m.Snapshot)
REMOVE_SNAPSHOT = Operation("removeSnapshot", "DELETE", _V + "/snapshots/{id}", Nothing)
FORK_SANDBOX = Operation("forkSandbox", "POST", _BOX + "/fork", m.SandboxInfo, r.ForkRequest, keyed=True)
UNDO = Operation("undo", "POST", _BOX + "/undo", m.Undone, r.UndoRequest, keyed=True)
PROMOTE_SANDBOX = Operation("promoteSandbox", "POST", _BOX + "/promote", m.SandboxInfo, r.PromoteRequest, keyed=True)
MERGE = Operation("merge", "POST", _BOX + "/merge", m.Merged, r.MergeRequest, keyed=True)
DIFF = Operation("diff", "GET", _V + "/diff", m.Diff, query=("from", "to", "path", "format"))

# --- images, volumes
LIST_IMAGES = Operation("listImages", "GET", _V + "/images", s.ImageList)
REMOVE_IMAGE = Operation("removeImage", "DELETE", _V + "/images", Nothing, query=("reference",))
GET_IMAGE = Operation("getImage", "GET", _V + "/images/inspect", s.Image, query=("reference",))
PULL_IMAGE = Operation("pullImage", "POST", _V + "/images/pull", s.Image, r.PullRequest, ("stream",), streams=True)
IMPORT_IMAGE = Operation("importImage", "POST", _V + "/images/import", s.Image, bytes, ("reference", "pick"))
EXPORT_IMAGE = Operation("exportImage", "GET", _V + "/images/export", bytes, query=("reference",))
BUILD_IMAGE = Operation("buildImage", "POST", _V + "/images/build", s.Image, r.BuildRequest, keyed=True)
COLLECT_GARBAGE = Operation("collectGarbage", "POST", _V + "/images/gc", s.Garbage)
LIST_VOLUMES = Operation("listVolumes", "GET", _V + "/volumes", s.VolumeList)
PUT_VOLUME = Operation("putVolume", "PUT", _V + "/volumes/{id}", s.Volume, r.VolumeRequest)
REMOVE_VOLUME = Operation("removeVolume", "DELETE", _V + "/volumes/{id}", Nothing)
GET_STORAGE = Operation("getStorage", "GET", _V + "/storage", s.Storage)

# --- tools and commands
LIST_TOOLS = Operation("listTools", "GET", _V + "/tools", m.ToolList)
EXECUTE_TOOL = Operation("executeTool", "POST", _BOX + "/tools/execute", m.ToolResult, r.ToolRequest, keyed=True)
RUN = Operation("run", "POST", _V + "/run", m.RunResult, r.RunRequest, keyed=True)
EXEC = Operation("exec", "POST", _BOX + "/exec", m.ExecResult, r.ExecRequest, ("stream",), keyed=True, streams=True)
EXEC_SOCKET = Operation("execSocket", "GET", _BOX + "/exec", Socket)
RUN_CODE = Operation("runCode", "POST", _BOX + "/code", m.CodeResult, r.CodeRequest, ("stream",), keyed=True,
                     streams=True)
CREATE_CONTEXT = Operation("createContext", "POST", _BOX + "/contexts", m.ContextInfo, r.ContextRequest, keyed=True)
LIST_CONTEXTS = Operation("listContexts", "GET", _BOX + "/contexts", m.ContextList)
REMOVE_CONTEXT = Operation("removeContext", "DELETE", _CONTEXT, Nothing)
INTERRUPT_CONTEXT = Operation("interruptContext", "POST", _CONTEXT + "/interrupt", Nothing)
START_PROCESS = Operation("startProcess", "POST", _BOX + "/processes", m.ProcessInfo, r.ProcessRequest, keyed=True)
LIST_PROCESSES = Operation("listProcesses", "GET", _BOX + "/processes", m.ProcessList)
GET_PROCESS = Operation("getProcess", "GET", _PROCESS, m.ProcessInfo)
REMOVE_PROCESS = Operation("removeProcess", "DELETE", _PROCESS, Nothing)
STREAM_OUTPUT = Operation("streamOutput", "GET", _PROCESS + "/output", Events, query=("stdout_offset", "stderr_offset"))
WRITE_INPUT = Operation("writeInput", "POST", _PROCESS + "/input", Nothing, bytes, ("close",))
SIGNAL_PROCESS = Operation("signalProcess", "POST", _PROCESS + "/signal", Nothing, r.SignalRequest, keyed=True)
RESIZE_PROCESS = Operation("resizeProcess", "POST", _PROCESS + "/resize", Nothing, r.ResizeRequest)
WAIT_PROCESS = Operation("waitProcess", "GET", _PROCESS + "/wait", m.ProcessInfo, query=("timeout_seconds",))
OPEN_TERMINAL = Operation("openTerminal", "GET", _BOX + "/terminal", Socket,
                          query=("rows", "cols", "command", "term", "process"))

# --- files
DOWNLOAD_FILE = Operation("downloadFile", "GET", _BOX + "/files/{path}", bytes)
HEAD_FILE = Operation("headFile", "HEAD", _BOX + "/files/{path}", Nothing)
UPLOAD_FILE = Operation("uploadFile", "PUT", _BOX + "/files/{path}", m.Written, bytes, ("mode",))
REMOVE_FILE = Operation("removeFile", "DELETE", _BOX + "/files/{path}", m.Removed, query=("recursive",))
STAT_FILE = Operation("statFile", "GET", _BOX + "/stat/{path}", m.FileEntry, query=("follow",))
LIST_FILES = Operation("listFiles", "GET", _BOX + "/list/{path}", m.FileList, query=("recursive",))
MAKE_FOLDER = Operation("makeFolder", "POST", _BOX + "/mkdir", m.Made, r.MkdirRequest, keyed=True)
MOVE_FILE = Operation("moveFile", "POST", _BOX + "/move", m.Moved, r.MoveRequest, keyed=True)
WATCH_FILES = Operation("watchFiles", "GET", _BOX + "/watch/{path}", Events, query=("recursive",))
DOWNLOAD_ARCHIVE = Operation("downloadArchive", "GET", _BOX + "/archive/{path}", bytes)
UPLOAD_ARCHIVE = Operation("uploadArchive", "PUT", _BOX + "/archive/{path}", m.Unpacked, bytes)

# --- ports
LIST_PORTS = Operation("listPorts", "GET", _BOX + "/ports", m.Ports)
PROXY_GET = Operation("proxyGet", "GET", _PORT, bytes)
PROXY_HEAD = Operation("proxyHead", "HEAD", _PORT, bytes)
PROXY_POST = Operation("proxyPost", "POST", _PORT, bytes, bytes)
PROXY_PUT = Operation("proxyPut", "PUT", _PORT, bytes, bytes)
PROXY_PATCH = Operation("proxyPatch", "PATCH", _PORT, bytes, bytes)
PROXY_DELETE = Operation("proxyDelete", "DELETE", _PORT, bytes, bytes)
PROXY_OPTIONS = Operation("proxyOptions", "OPTIONS", _PORT, bytes)
PROXIES = {one.method: one for one in (PROXY_GET, PROXY_HEAD, PROXY_POST, PROXY_PUT, PROXY_PATCH, PROXY_DELETE,
                                       PROXY_OPTIONS)}

# --- what happened
STREAM_EVENTS = Operation("streamEvents", "GET", _V + "/events", Events, query=("sandbox", "after"))
QUERY_AUDIT = Operation("queryAudit", "GET", _V + "/audit", m.AuditPage,
                        query=("after", "before", "limit", "sandbox", "action", "outcome", "tenant"))
GET_SANDBOX_LOGS = Operation("getSandboxLogs", "GET", _BOX + "/logs", m.AuditPage, query=("after", "limit"))
VERIFY_AUDIT = Operation("verifyAudit", "GET", _V + "/audit/verify", m.Verdict)

# --- who may call
CREATE_TOKEN = Operation("createToken", "POST", _V + "/tokens", s.NewToken, r.TokenRequest)
LIST_TOKENS = Operation("listTokens", "GET", _V + "/tokens", s.TokenList)
REVOKE_TOKEN = Operation("revokeToken", "DELETE", _V + "/tokens/{id}", Nothing)
LIST_USERS = Operation("listUsers", "GET", _V + "/users", s.UserList)
PUT_USER = Operation("putUser", "PUT", _V + "/users/{id}", s.User, r.UserRequest)
REMOVE_USER = Operation("removeUser", "DELETE", _V + "/users/{id}", Nothing)
IMPORT_LISTINGS = Operation("importListings", "POST", _V + "/sandboxer/import", s.ImportCount, r.ImportRequest)
LIST_SECRETS = Operation("listSecrets", "GET", _V + "/secrets", s.SecretList)
PUT_SECRET = Operation("putSecret", "PUT", _V + "/secrets/{id}", Nothing, r.SecretRequest)
REMOVE_SECRET = Operation("removeSecret", "DELETE", _V + "/secrets/{id}", Nothing)

# --- the server itself
GET_SERVER = Operation("getServer", "GET", _V + "/server", s.Server)
GET_HEALTH = Operation("getHealth", "GET", "/healthz", s.Health)
GET_READINESS = Operation("getReadiness", "GET", "/readyz", s.Readiness)
GET_METRICS = Operation("getMetrics", "GET", "/metrics", str)
GET_OPENAPI = Operation("getOpenapi", "GET", "/openapi.json", s.Document)
GET_DOCS = Operation("getDocs", "GET", "/docs", str)

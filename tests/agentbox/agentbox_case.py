"""A client of agentbox, and a server that it takes for one.

    class Exec(AgentboxCase):
        def test_one(self):
            session = self.session()
            self.assertEqual(self.says(session, "echo hi"), "hi\n")

The messages come from api/sandbox/v1/sandbox.proto, turned into Python by protoc when the tests start; the calls are
Debian's grpcio, so that what is tested is what a client meets.
"""

import atexit
import functools
import importlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("support", "server", "images"))]
try:
    import grpc  # noqa: E402
except ImportError:
    print("SKIPPED: python3-grpcio is not installed")
    sys.exit(77)

import harness  # noqa: E402
from harness import PATIENCE, wait_for  # noqa: E402
from store_case import StoreCase, StoreServer  # noqa: E402

SLOW = PATIENCE * 4
SERVICE = "sandbox.v1.SandboxService"
PROTO = "sandbox/v1/sandbox.proto"
MESSAGE_BYTES_MAX = 4 << 20  # what a client that asks for nothing else sends and takes
DEFAULT_HOSTS = ["pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "github.com", "raw.githubusercontent.com",
                 "objects.githubusercontent.com", "crates.io", "static.crates.io"]
METHODS = {  # name → (request, answer, is a stream)
    "CreateSession": ("CreateSessionRequest", "CreateSessionResponse", False),
    "DestroySession": ("DestroySessionRequest", "DestroySessionResponse", False),
    "GetSession": ("GetSessionRequest", "GetSessionResponse", False),
    "ListSessions": ("ListSessionsRequest", "ListSessionsResponse", False),
    "Exec": ("ExecRequest", "ExecResponse", False),
    "ExecStream": ("ExecStreamRequest", "ExecStreamResponse", True),
    "WriteFile": ("WriteFileRequest", "WriteFileResponse", False),
    "ReadFile": ("ReadFileRequest", "ReadFileResponse", False),
    "PipInstall": ("PipInstallRequest", "ExecResponse", False),
}


@functools.cache
def messages_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-messages-"))
    atexit.register(shutil.rmtree, folder, True)
    sys.path.append(str(folder))
    return folder


def messages_of(name, text=None):
    """The module of a .proto: that of the API, or one whose text is given."""
    folder = messages_folder()
    include = ROOT / "api"
    if text is not None:
        include = folder / "text"
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).write_text(text, encoding="utf-8")
    subprocess.run(["protoc", f"-I{include}", f"--python_out={folder}", name], check=True, timeout=PATIENCE)
    importlib.invalidate_caches()
    return importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")


pb = messages_of(PROTO)


class Api:
    """The nine methods on one channel, each called with the fields of its message:

        api.Exec(session_id="a", command="true")

    A stream is an iterator with cancel(). `deadline` is the client's own, in seconds."""

    def __init__(self, address, credentials=None, metadata=(), options=()):
        self.address, self.metadata = address, tuple(metadata)
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials else
                        grpc.insecure_channel(address, options))

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getattr__(self, name):
        if name not in METHODS:
            raise AttributeError(name)
        request, answer, is_stream = METHODS[name]
        make = self.channel.unary_stream if is_stream else self.channel.unary_unary
        call = make(f"/{SERVICE}/{name}", request_serializer=getattr(pb, request).SerializeToString,
                    response_deserializer=getattr(pb, answer).FromString)

        def method(deadline=SLOW, metadata=None, **fields):
            return call(getattr(pb, request)(**fields), timeout=deadline,
                        metadata=self.metadata if metadata is None else metadata)

        setattr(self, name, method)
        return method

    def raw(self, method, message=b"", service=SERVICE, deadline=SLOW, metadata=None):
        """Bytes in, bytes out."""
        call = self.channel.unary_unary(f"/{service}/{method}")
        return call(message, timeout=deadline, metadata=self.metadata if metadata is None else metadata)

    def raw_stream(self, method, message=b"", service=SERVICE, deadline=SLOW):
        call = self.channel.unary_stream(f"/{service}/{method}")
        return call(message, timeout=deadline, metadata=self.metadata)


class AgentboxServer(StoreServer):
    """With the second port. `settings` is the block `agentbox` of its file."""

    def __init__(self, *flags, settings=None, config=None, **more):
        block = {"image": "host", **(settings or {})}
        block = {name: value for name, value in block.items() if value is not None}
        text = f"agentbox: {json.dumps(block)}\n" + (config or "")
        super().__init__("--grpc-listen", "127.0.0.1:0", *flags, config=text, **more)
        self.grpc_port = 0

    def start(self, listen=True):
        super().start(listen)
        if "--grpc-listen" not in self.flags and "GRPC_PORT" not in self.env:
            return self  # it only takes over what another one has left, to end it
        line = self.process.stdout.readline().decode().strip()
        found = re.match(r"gRPC on https?://127\.0\.0\.1:(\d+)$", line)
        if not found:
            raise AssertionError(f"no second port: {line!r} {self.log()}")
        self.grpc_port = int(found[1])
        return self

    @property
    def grpc(self):
        return f"127.0.0.1:{self.grpc_port}"


class AgentboxCase(StoreCase):
    """One server and one channel for all tests of a class; the server is open."""

    flags = ("--open",)
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.server = AgentboxServer(*cls.flags, settings=cls.settings, config=cls.config, env=cls.env)
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.connect()

    @classmethod
    def connect(cls):
        metadata = (("authorization", f"Bearer {cls.server.token}"),) if cls.server.token else ()
        cls.api = Api(cls.server.grpc, metadata=metadata)
        cls.addClassCleanup(cls.api.close)

    # --- sessions

    def info(self, api=None, **wish):
        """What a new session says of itself."""
        api = api or self.api
        made = api.CreateSession(**wish).session
        self.addCleanup(api.DestroySession, session_id=made.session_id)
        return made

    def session(self, **wish):
        return self.info(**wish).session_id

    def listed(self, session_id):
        """Its SessionInfo as ListSessions has it, which touches nothing; None when it is not there."""
        found = [one for one in self.api.ListSessions().sessions if one.session_id == session_id]
        return found[0] if found else None

    # --- commands

    def execute(self, session, command, **more):
        return self.api.Exec(session_id=session, command=command, **more)

    def says(self, session, command, **more):
        """Its stdout, once it has succeeded."""
        done = self.execute(session, command, **more)
        self.assertEqual((done.exit_code, done.timed_out), (0, False), done)
        return done.stdout

    def stream(self, session, command, **more):
        return self.api.ExecStream(session_id=session, command=command, **more)

    def whole(self, session, command, **more):
        """(stdout, stderr, exit code) of a stream that ends as it should."""
        texts, last = {"stdout": "", "stderr": ""}, None
        for one in self.stream(session, command, **more):
            self.assertIsNone(last, "nothing comes after the exit")
            if one.type == "exit":
                self.assertEqual((one.data, one.HasField("exit_code")), ("", True))
                last = one.exit_code
            else:
                self.assertFalse(one.HasField("exit_code"), one)
                texts[one.type] += one.data
        self.assertIsNotNone(last, "an exit is the last message")
        return texts["stdout"], texts["stderr"], last

    def running(self, session, word):
        """Do processes inside have this word in their command line? Asked without a process that has it."""
        hidden = f"[{word[0]}]{word[1:]}"
        return self.execute(session, f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q '{hidden}'"
                            ).exit_code == 0

    def wait_until_running(self, session, word):
        wait_for(lambda: self.running(session, word), f"{word} inside")

    def wait_until_ended(self, session, word):
        wait_for(lambda: not self.running(session, word), f"the end of {word} inside")

    def exists(self, session, path):
        return self.execute(session, f"test -e {path}").exit_code == 0

    def in_background(self, call):
        """A call that waits, and the list that its answer, or its error, will be in."""
        answers = []

        def wait():
            try:
                answers.append(call())
            except grpc.RpcError as error:
                answers.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        self.addCleanup(thread.join, SLOW)
        return thread, answers

    # --- refusals

    def status_of(self, call):
        """(code, details) of a call that fails."""
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        return caught.exception.code(), caught.exception.details()

    def refused(self, code, call):
        """Its words, which are never empty."""
        seen, details = self.status_of(call)
        self.assertEqual(seen, code, details)
        self.assertTrue(details)
        return details

    def metric(self, name, **labels):
        """The value of one line of /metrics; 0 while there is none."""
        text = self.server.get("/metrics").body.decode()
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        for line in text.splitlines():
            found = re.fullmatch(re.escape(name) + r"(?:\{(.*)\})? (\S+)", line)
            if found and wanted <= set((found[1] or "").split(",")):
                return float(found[2])
        return 0.0


def main():
    """Its results under a name that no file of another folder has."""
    sys.argv[0] = "agentbox_" + pathlib.Path(sys.argv[0]).name
    harness.main()

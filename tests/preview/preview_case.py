"""A server with previews, and clients that reach it by the names of its sandboxes.

    class Visits(PreviewCase):
        def test_one(self):
            box = self.site()
            self.assertEqual(self.get(self.host(box), "/").status, 401)

Names are not looked up: each client connects to this machine and says in Host, and in TLS, whom it means.
"""

import contextlib
import http.client
import json
import pathlib
import socket
import ssl
import struct
import sys
import unittest
from collections import namedtuple

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from harness import BIN, PATIENCE, Server, main, path_of, wait_for  # noqa: E402, F401

VHOST = "box.test"
PORT = 8000  # of the program inside
PROGRAM = (HERE / "program.py").read_text(encoding="utf-8")
Seen = namedtuple("Seen", "status headers body")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Link:
    """How a client gets there: an address, and TLS or none."""

    def __init__(self, port, trust=None):
        self.port, self.trust = port, trust

    def connect(self, host):
        link = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        return self.trust.wrap_socket(link, server_hostname=host.partition(":")[0]) if self.trust else link

    def open(self, host, path, method="GET", headers=None, body=None):
        """The connection and the unread answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.sock = self.connect(host)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", host)
        for name, value in (headers or {}).items():
            for one in value if isinstance(value, list) else [value]:
                connection.putheader(name, one)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        return connection, connection.getresponse()

    def ask(self, host, path, **more):
        connection, answer = self.open(host, path, **more)
        with contextlib.closing(connection):
            return Seen(answer.status, answer.headers, answer.read())

    def frames(self, host, path, headers=None):
        """The answer's head, and the frames behind it."""
        link = self.connect(host)
        fields = {"Host": host, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} | (headers or {})
        link.sendall("\r\n".join([f"GET {path} HTTP/1.1", *(f"{n}: {v}" for n, v in fields.items()), "", ""]).encode())
        return Frames(link)


class Frames:
    def __init__(self, link):
        self.link, self.stream = link, link.makefile("rb")
        self.status = int(self.stream.readline().split()[1])
        while self.stream.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.link.close()

    def send(self, text):
        payload = text.encode()
        assert len(payload) < 126
        self.link.sendall(bytes([0x81, 0x80 | len(payload)]) + bytes(4) + payload)

    def read(self):
        head = self.stream.read(2)
        size = head[1]
        if size == 126:
            (size,) = struct.unpack("!H", self.stream.read(2))
        return self.stream.read(size).decode()


class PreviewCase(unittest.TestCase):
    """One server for all tests of a class; `link` is the clients' way to it."""

    scheme = "http"

    @classmethod
    def setUpClass(cls):
        cls.public_port = free_port()
        cls.server = Server("--vhost", f"{cls.scheme}://{VHOST}:{cls.public_port}", *cls.flags())
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.link = Link(cls.server.port)

    @classmethod
    def flags(cls):
        return ()

    # --- sandboxes

    def site(self, token=None, port=PORT, **wish):
        """A sandbox with the program inside, which answers."""
        wish = {"files": {"program.py": PROGRAM}} | wish
        made = self.server.post("/api/v1/sandboxes", wish, token=token)
        self.assertEqual(made.status, 201, made.body)
        box = made.json["id"]
        self.start(box, token, port)
        return box

    def start(self, box, token=None, port=PORT):
        self.server.post(path_of(box, "processes"), {"command": f"exec python3 program.py {port}"}, token=token)
        wait_for(lambda: self.server.get(path_of(box, "ports", port, ""), token=token).status == 200, "the program")

    def tenant(self, name):
        made = self.server.post("/api/v1/tokens", {"tenant": name, "scopes": ["read", "use", "create"]})
        self.assertEqual(made.status, 201, made.body)
        return made.json["token"]

    def publish(self, box, public=True):
        done = self.server.put(path_of(box, "visibility"), {"public": public})
        self.assertEqual(done.status, 200, done.body)

    # --- visits

    def host(self, box, port=None):
        return (f"{port}-" if port else "") + f"{box}.{VHOST}"

    def get(self, host, path, **more):
        return self.link.ask(host, path, **more)

    def invitation(self, box, port=None, token=None):
        """(host, path) of the link that lets its reader in."""
        made = self.server.post(path_of(box, "previews"), {"port": port} if port else {}, token=token)
        self.assertEqual(made.status, 201, made.body)
        scheme, _, rest = made.json["invitation"].partition("://")
        self.assertEqual(scheme, self.scheme)
        authority, _, path = rest.partition("/")
        host, _, number = authority.partition(":")
        self.assertEqual(int(number), self.public_port)
        return host, "/" + path

    def enter(self, box, port=None, token=None):
        """The cookie, as a browser sends it."""
        host, path = self.invitation(box, port, token)
        self.assertEqual(host, self.host(box, port))
        entered = self.get(host, path)
        self.assertEqual(entered.status, 303, entered.body)
        self.assertEqual(entered.headers["Location"], "/")
        (cookie,) = entered.headers.get_all("Set-Cookie")
        self.assertNotIn("domain", cookie.lower())
        self.assertIn("HttpOnly", cookie)
        self.assertIn("SameSite=Lax", cookie)
        return cookie.partition(";")[0]

    def fields(self, answer):
        """What the program says that it was sent: lower-case name → values."""
        found = {}
        for name, value in json.loads(answer.body)["fields"]:
            found.setdefault(name.lower(), []).append(value)
        return found


def trusting(certificate):
    return ssl.create_default_context(cafile=str(certificate))

"""An OCI registry whose every answer a test can bend. It tells the truth until it is told to lie:

    with LyingRegistry() as registry:
        registry.hold("kit/busybox", "1", folder)          # an OCI layout
        registry.bend("layer", flipped(at=100))            # each layer has one wrong byte
        registry.bend("manifest", status(503), times=2)    # the first two questions for a manifest fail
        …
        registry.asked("layer")                            # what has come

What an answer is about is one of KINDS; bend() also takes a digest or a part of the path. A bend is a function that is
given the Question and the Answer, and gives back an Answer; bends are applied in the order they were told.
"""

import base64
import collections
import dataclasses
import hashlib
import http.server
import json
import pathlib
import re
import secrets
import socket
import threading
import time
import urllib.parse

PATIENCE = 30.0
BLOCK = 1 << 16
KINDS = ("ping", "token", "index", "manifest", "config", "layer", "elsewhere")
TYPES_OF_INDEX = ("application/vnd.oci.image.index.v1+json",
                  "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFEST = re.compile(r"^/v2/(?P<repo>.+)/manifests/(?P<reference>[^/]+)$")
BLOB = re.compile(r"^/v2/(?P<repo>.+)/blobs/(?P<digest>[^/]+)$")


@dataclasses.dataclass
class Question:
    method: str
    path: str  # with its query
    headers: object
    kind: str = "elsewhere"
    digest: str = ""
    repo: str = ""
    tag: str = ""

    def header(self, name):
        return self.headers.get(name)

    def credentials(self):
        """(name, password) of basic credentials, or None."""
        scheme, _, rest = (self.header("Authorization") or "").partition(" ")
        if scheme.lower() != "basic":
            return None
        return tuple(base64.b64decode(rest).decode().split(":", 1))


@dataclasses.dataclass
class Answer:
    status: int = 200
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    length: int | None = None  # what Content-Length says; None for the truth, -1 for none at all (the end is the end)
    close_after: int | None = None  # this many bytes of the body, then the connection ends
    stall_after: int | None = None  # this many bytes of the body, then nothing until release() or until the client left
    drip_seconds: float = 0.0  # between blocks of drip_bytes
    drip_bytes: int = 1
    repeat: int = 1  # the body so many times, without so much memory

    def but(self, **changes):
        return dataclasses.replace(self, **changes)


# ---------------------------------------------------------------------------------------------------------------------
# Ways to lie.


def flipped(at=0):
    """One bit of the body is another one; the length is right."""

    def bend(_, answer):
        where = at % max(1, len(answer.body))
        wrong = bytes([answer.body[where] ^ 1]) if answer.body else b""
        return answer.but(body=answer.body[:where] + wrong + answer.body[where + 1 :])

    return bend


def replaced(body, **more):
    """Other bytes; headers stay, unless more says otherwise."""
    return lambda _, answer: answer.but(body=body, **more)


def shorter(size, honest_length=True):
    """The first bytes only. With an honest length the answer looks whole; else the connection ends too early."""

    def bend(_, answer):
        if honest_length:
            return answer.but(body=answer.body[:size])
        return answer.but(close_after=size)

    return bend


def longer(extra=b"\0", repeat=1, honest_length=True):
    """More bytes than the descriptor says. Without an honest length there is none, and the end is the end."""

    def bend(_, answer):
        body = answer.body + extra * repeat
        return answer.but(body=body, length=None if honest_length else -1)

    return bend


def endless(block=b"\0" * BLOCK, times=1 << 20):
    """64 GiB, without a length."""
    return lambda _, answer: answer.but(body=block, repeat=times, length=-1)


def stalled(after=0):
    return lambda _, answer: answer.but(stall_after=after)


def dripping(seconds=0.05, size=1):
    return lambda _, answer: answer.but(drip_seconds=seconds, drip_bytes=size)


def status(code, **headers):
    """An error as registries word it; headers as retry_after=1."""
    said = {name.replace("_", "-").title(): str(value) for name, value in headers.items()}
    body = json.dumps({"errors": [{"code": "UNKNOWN", "message": f"bent to {code}"}]}).encode()
    return lambda *_: Answer(code, {"Content-Type": "application/json", **said}, body)


def redirected(url, code=307):
    """Anywhere. {path} in the URL stands for what was asked for."""
    return lambda question, _: Answer(code, {"Location": url.replace("{path}", question.path)})


def typed(media_type):
    """Another Content-Type; None for none."""

    def bend(_, answer):
        headers = {name: value for name, value in answer.headers.items() if name != "Content-Type"}
        return answer.but(headers=headers | ({"Content-Type": media_type} if media_type else {}))

    return bend


def headed(**headers):
    """Other headers, as docker_content_digest=….; None takes one away."""

    def bend(_, answer):
        changed = dict(answer.headers)
        for name, value in headers.items():
            name = name.replace("_", "-").title()
            changed.pop(name, None)
            if value is not None:
                changed[name] = str(value)
        return answer.but(headers=changed)

    return bend


# ---------------------------------------------------------------------------------------------------------------------
# The registry.


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # who hangs up on a liar is right to


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE * 4

    def log_message(self, *_):
        pass

    def setup(self):
        if self.server.context:  # in this connection's own thread: a client that does not shake hands holds nobody
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def do_GET(self):
        question = Question(self.command, self.path, self.headers)
        self._send(question, self.server.registry._answer(question))

    do_HEAD = do_GET

    def _send(self, question, answer):
        self.send_response(answer.status)
        length = answer.length if answer.length is not None else len(answer.body) * answer.repeat
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if length >= 0:
            self.send_header("Content-Length", str(length))
        else:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()
        if question.method != "HEAD":
            self._send_body(answer)

    def _send_body(self, answer):
        ends = [end for end in (answer.close_after, answer.stall_after) if end is not None]
        body = answer.body if not ends else answer.body[: min(ends)]
        for _ in range(answer.repeat):
            step = answer.drip_bytes if answer.drip_seconds else BLOCK
            for at in range(0, len(body), step):
                self.wfile.write(body[at : at + step])
                if answer.drip_seconds:
                    time.sleep(answer.drip_seconds)  # the lie itself, not a wait
        if answer.stall_after is not None:
            self.server.registry._hold(self.connection)
        if ends:
            self.close_connection = True


class LyingRegistry:
    """authority: an upstream.Authority, for TLS with a certificate for these names. address may name another
    interface, or another address of loopback."""

    def __init__(self, authority=None, names=("localhost", "127.0.0.1"), address="127.0.0.1", port=0):
        self.lock = threading.Lock()
        self._tags, self._turns = {}, collections.Counter()  # (repo, tag) → [digest]
        self._blobs = {}  # digest → (kind, media type, path or bytes)
        self._bends, self._asked = [], []
        self._released, self.left = threading.Event(), threading.Semaphore(0)
        self.held = threading.Semaphore(0)
        self._basic = self._challenge = None
        self._tokens, self.ranges = set(), True
        self.listener = _Listener((address, port), _Handler)
        self.listener.registry = self
        self.listener.context = authority.context(*names) if authority else None
        self.port = self.listener.server_address[1]
        self.address = f"{address}:{self.port}"
        self.url = f"{'https' if authority else 'http'}://{self.address}"

    def __enter__(self):
        # A short poll only decides how soon the end of it is noticed.
        threading.Thread(target=self.listener.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.release()
        self.listener.shutdown()
        self.listener.server_close()

    # --- what it holds

    def hold(self, repo, tag, *folders, layout_tag="1"):
        """An image of a layout under a tag. With more than one, each question for the tag gets the next; the last
        one stays."""
        digests = []
        for folder in map(pathlib.Path, folders):
            listed = json.loads((folder / "index.json").read_bytes())["manifests"]
            named = {one.get("annotations", {}).get("org.opencontainers.image.ref.name"): one for one in listed}
            digests.append(self._learn(folder, named[layout_tag]))
        with self.lock:
            self._tags[repo, tag] = digests
            self._turns.pop((repo, tag), None)
        return digests[0]

    def _learn(self, folder, descriptor, kind="manifest"):
        """Everything that can be reached from here; what a hostile manifest does not say right is left out."""
        digest, media_type = descriptor["digest"], descriptor.get("mediaType", "")
        kind = "index" if media_type in TYPES_OF_INDEX else kind
        path = folder / "blobs" / digest.replace(":", "/")
        if not path.is_file():
            return digest
        with self.lock:
            self._blobs[digest] = (kind, media_type, path)
        if kind in ("index", "manifest"):
            try:
                inner = json.loads(path.read_bytes())
                for one in inner.get("manifests", []):
                    self._learn(folder, one)
                for one in inner.get("layers", []):
                    self._learn(folder, one, "layer")
                if kind == "manifest":
                    self._learn(folder, inner["config"], "config")
            except (ValueError, KeyError, TypeError, AttributeError):
                pass
        return digest

    def put(self, content, kind, media_type="application/octet-stream", digest=None):
        """Bytes under their digest, or under one that is not theirs."""
        digest = digest or "sha256:" + hashlib.sha256(content).hexdigest()
        with self.lock:
            self._blobs[digest] = (kind, media_type, content)
        return digest

    def point(self, repo, tag, *digests):
        with self.lock:
            self._tags[repo, tag] = list(digests)
            self._turns.pop((repo, tag), None)

    def reference(self, name):
        return f"{self.address}/{name}"

    # --- what it does

    def bend(self, what, how, times=None, after=0):
        """Answers about `what` (a kind, a digest, a part of the path, or `*`) are bent, the first `after` of them
        not, and then `times` of them."""
        with self.lock:
            self._bends.append({"what": what, "how": how, "left": times, "after": after})

    def straighten(self):
        """The truth again."""
        with self.lock:
            self._bends.clear()
        self.ranges, self._basic, self._challenge = True, None, None

    def require_basic(self, name, password):
        self._basic = (name, password)

    def require_token(self, realm=None, service="test", users=None):
        """Bearer tokens from /token here, or from a realm anywhere. users: who gets one; without it, everybody."""
        self._challenge = {"realm": realm or f"{self.url}/token", "service": service, "users": users}

    def forget_tokens(self):
        """All that were given are worth nothing from now on."""
        with self.lock:
            self._tokens.clear()

    def release(self):
        self._released.set()

    def asked(self, what="*"):
        with self.lock:
            return [one for one in self._asked if self._is_about(one, what)]

    def forget(self):
        with self.lock:
            self._asked.clear()

    @staticmethod
    def _is_about(question, what):
        return what in ("*", question.kind, question.digest) or (what not in KINDS and what in question.path)

    # --- answering

    def _answer(self, question):
        with self.lock:
            answer = self._truth(question)
            self._asked.append(question)
            for bend in self._bends:
                if not self._is_about(question, bend["what"]) or bend["left"] == 0:
                    continue
                if bend["after"] > 0:
                    bend["after"] -= 1
                    continue
                if bend["left"] is not None:
                    bend["left"] -= 1
                answer = bend["how"](question, answer)
        return answer

    def _truth(self, question):
        path = urllib.parse.unquote(question.path.partition("?")[0])
        self._classify(question, path)
        if question.kind == "token":
            return self._token(question)
        if not path.startswith("/v2/"):
            return status(404)(question, None)
        refusal = self._refusal(question)
        if refusal:
            return refusal
        if path == "/v2/":
            return Answer(200, {"Content-Type": "application/json", "Docker-Distribution-Api-Version": "registry/2.0"},
                          b"{}")
        if question.digest not in self._blobs:
            return status(404)(question, None)
        return self._content(question)

    def _classify(self, question, path):
        if path in ("/v2/", "/v2"):
            question.kind = "ping"
        elif path == "/token":
            question.kind = "token"
        elif found := MANIFEST.match(path):
            question.kind, question.repo, reference = "manifest", found["repo"], found["reference"]
            question.digest = reference
            if ":" not in reference:
                question.tag = reference
                question.digest = self._turn(question.repo, reference)
        elif found := BLOB.match(path):
            question.kind, question.repo, question.digest = "layer", found["repo"], found["digest"]
        if question.digest in self._blobs:
            question.kind = self._blobs[question.digest][0]

    def _turn(self, repo, tag):
        digests = self._tags.get((repo, tag))
        if not digests:
            return ""
        turn = self._turns[repo, tag]
        self._turns[repo, tag] += 1
        return digests[min(turn, len(digests) - 1)]

    def _content(self, question):
        _, media_type, body = self._blobs[question.digest]
        body = body.read_bytes() if isinstance(body, pathlib.Path) else body
        headers = {"Docker-Content-Digest": question.digest}
        is_blob = "/blobs/" in question.path
        headers["Content-Type"] = "application/octet-stream" if is_blob else media_type
        wanted = re.match(r"bytes=(\d+)-(\d*)$", question.header("Range") or "")
        if not is_blob or not self.ranges:
            return Answer(200, headers, body)
        headers["Accept-Ranges"] = "bytes"
        if not wanted:
            return Answer(200, headers, body)
        first, last = int(wanted[1]), min(int(wanted[2] or len(body) - 1), len(body) - 1)
        if first > last:
            return Answer(416, {"Content-Range": f"bytes */{len(body)}"})
        headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        return Answer(206, headers, body[first : last + 1])

    def _refusal(self, question):
        if self._basic and question.credentials() != self._basic:
            return self._unauthorized('Basic realm="test"')
        if self._challenge:
            scheme, _, token = (question.header("Authorization") or "").partition(" ")
            if scheme.lower() != "bearer" or token not in self._tokens:
                said = f'Bearer realm="{self._challenge["realm"]}",service="{self._challenge["service"]}"'
                said += f',scope="repository:{question.repo}:pull"' if question.repo else ""
                return self._unauthorized(said)
        return None

    @staticmethod
    def _unauthorized(challenge):
        return Answer(401, {"Www-Authenticate": challenge, "Content-Type": "application/json"},
                      b'{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}')

    def _token(self, question):
        users = (self._challenge or {}).get("users")
        given = question.credentials()
        if users and (not given or users.get(given[0]) != given[1]):
            return self._unauthorized('Basic realm="token"')
        token = secrets.token_hex(16)
        self._tokens.add(token)
        said = json.dumps({"token": token, "expires_in": 60}).encode()
        return Answer(200, {"Content-Type": "application/json"}, said)

    def _hold(self, link):
        """Until release(), or until the client has left."""
        self.held.release()
        link.settimeout(0.05)
        while not self._released.is_set():
            try:
                if not link.recv(1):
                    self.left.release()
                    return
            except (TimeoutError, socket.timeout):
                continue
            except OSError:
                self.left.release()
                return

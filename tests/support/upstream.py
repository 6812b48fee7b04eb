"""What a test of the way out reaches: a name server, web servers with and without TLS, and plain TCP servers, all in
threads of the test's own process, on sockets of its own. Each remembers who came and what was said, so that a test can
ask what arrived rather than what a client was told.
"""

import functools
import ipaddress
import json
import pathlib
import socket
import ssl
import struct
import subprocess
import threading
import time

PATIENCE = 30.0
A_MOMENT = 2.0
A, CNAME, TXT, AAAA = 1, 5, 16, 28


def listening(port=0, everywhere=True):
    """A listener of both families on every address, or on 127.0.0.1 only."""
    if not everywhere:
        return socket.create_server(("127.0.0.1", port), backlog=512)
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)


def plain(address):
    """11.0.0.1 for ::ffff:11.0.0.1."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


# ---------------------------------------------------------------------------------------------------------------------
# Names.


def read_question(message):
    """(name, type, end of the question)"""
    at, labels = 12, []
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1"))
        at += message[at] + 1
    return ".".join(labels).lower(), struct.unpack(">H", message[at + 1 : at + 3])[0], at + 5


def write_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def record(owner, value):
    """One resource record with a time to live of zero: an address of either family, or the name that is meant."""
    try:
        parsed = ipaddress.ip_address(value)
        kind, data = (A if parsed.version == 4 else AAAA), parsed.packed
    except ValueError:
        kind, data = CNAME, write_name(value)
    return kind, write_name(owner) + struct.pack(">HHIH", kind, 1, 0, len(data)) + data


class Dns:
    """An authoritative server for everything, on UDP and TCP. A name that was not set does not exist."""

    def __init__(self):
        self.lock = threading.Lock()
        self.zone, self.turns, self.asked = {}, {}, []
        self.tcp = listening(everywhere=False)
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.address = f"127.0.0.1:{self.port}"
        for loop in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=loop, daemon=True).start()

    def set(self, name, *values):
        """The same answer each time. `*.zone` stands for every name below that has none of its own."""
        self.turn(name, values)

    def turn(self, name, *answers):
        """One answer for each query of a type, in this order; the last one stays."""
        with self.lock:
            self.zone[name] = [tuple(answer) for answer in answers]
            for key in [key for key in self.turns if key[0] == name]:
                del self.turns[key]

    def names_asked(self):
        with self.lock:
            return {name for name, _, _ in self.asked}

    def forget(self):
        with self.lock:
            self.asked.clear()

    def _values(self, name, kind):
        answers = self.zone.get(name)
        if answers is None:
            parts = name.split(".")
            candidates = ("*." + ".".join(parts[i:]) for i in range(1, len(parts)))
            answers = next((self.zone[one] for one in candidates if one in self.zone), None)
        if answers is None:
            return None
        turn = self.turns.get((name, kind), 0)
        self.turns[name, kind] = turn + 1
        return answers[min(turn, len(answers) - 1)]

    def _records(self, name, kind):
        """What is said about the name, following names that stand for others; None when there is no such name."""
        values = self._values(name, kind)
        if values is None:
            return None
        found = []
        for value in values:
            its_kind, encoded = record(name, value)
            if its_kind in (kind, CNAME):
                found.append(encoded)
            if its_kind == CNAME:
                found += self._records(value, kind) or []
        return found

    def _answer(self, message, transport):
        name, kind, end = read_question(message)
        with self.lock:
            self.asked.append((name, kind, transport))
            records = self._records(name, kind)
        code = 3 if records is None else 0
        counts = struct.pack(">HHHHH", 0x8180 | code, 1, len(records or ()), 0, 0)
        return message[:2] + counts + message[12:end] + b"".join(records or ())

    def _serve_udp(self):
        while True:
            message, who = self.udp.recvfrom(4096)
            try:
                answer = self._answer(message, "udp")
            except (IndexError, struct.error):
                continue
            if len(answer) > 512:  # all of it by TCP
                answer = answer[:2] + struct.pack(">HHHHH", 0x8380, 1, 0, 0, 0) + answer[12 : read_question(answer)[2]]
            self.udp.sendto(answer, who)

    def _serve_tcp(self):
        while True:
            link, _ = self.tcp.accept()
            threading.Thread(target=self._serve_link, args=(link,), daemon=True).start()

    def _serve_link(self, link):
        with link, link.makefile("rwb") as stream:
            while len(size := stream.read(2)) == 2:
                answer = self._answer(stream.read(struct.unpack(">H", size)[0]), "tcp")
                stream.write(struct.pack(">H", len(answer)) + answer)
                stream.flush()


# ---------------------------------------------------------------------------------------------------------------------
# TLS.


class Authority:
    """An authority of the test's own, made by the openssl program in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.certificate = self.folder / "authority.pem"
        self.key = self.folder / "authority.key"
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                      "30", "-subj", "/CN=test authority", "-keyout", self.key, "-out", self.certificate)

    def _openssl(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=PATIENCE)

    def files(self, name):
        """(chain, key) of the certificate whose first name this is."""
        path = self.folder / name.replace("*", "_")
        return path.with_suffix(path.suffix + ".pem"), path.with_suffix(path.suffix + ".key")

    def context(self, *names):
        """A server's side of TLS with a certificate for these names, or IPv4 addresses."""
        chain, key = self.files(names[0])
        request, extra = chain.with_suffix(".req"), chain.with_suffix(".ext")
        kinds = ["IP" if name.replace(".", "").isdigit() else "DNS" for name in names]
        said = ",".join(f"{kind}:{name}" for kind, name in zip(kinds, names))
        extra.write_text(f"subjectAltName={said}\n", encoding="ascii")
        self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                      f"/CN={names[0]}", "-keyout", key, "-out", request)
        self._openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                      "-days", "30", "-extfile", extra, "-out", chain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        return context


# ---------------------------------------------------------------------------------------------------------------------
# Servers.


class Server:
    """A thread for each connection; `arrived` has the address each one came to, also of those that said nothing.

    Who asks what has come is told after everything has come: a question waits until the connections made before it are
    accepted, and a moment for those that are open to end."""

    def __init__(self, port=0, everywhere=True, context=None):
        self.context = context
        self.lock = threading.Lock()
        self._arrived, self._server_names = [], []
        self._open, self._marks = 0, {}
        self.listener = listening(port, everywhere)
        self.port = self.listener.getsockname()[1]
        if context:
            context.sni_callback = lambda _, name, __: self._server_names.append(name)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                link, who = self.listener.accept()
            except OSError:
                return  # closed
            with self.lock:
                mark = self._marks.pop(who[1], None)
                if not mark:
                    self._arrived.append(plain(link.getsockname()[0]))
                    self._open += 1
            if mark:
                link.close()
                mark.set()
                continue
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def settle(self):
        """Connections are accepted in their order: when one of our own is, those before it were."""
        with socket.socket() as link:
            link.bind(("127.0.0.1", 0))
            with self.lock:
                mark = self._marks[link.getsockname()[1]] = threading.Event()
            link.connect(("127.0.0.1", self.port))
            mark.wait(PATIENCE)
        deadline = time.monotonic() + A_MOMENT
        while self._open > 0 and time.monotonic() < deadline:
            time.sleep(0.002)

    @property
    def arrived(self):
        self.settle()
        with self.lock:
            return list(self._arrived)

    @property
    def server_names(self):
        self.settle()
        with self.lock:
            return list(self._server_names)

    def _serve(self, link):
        try:
            self._talk(link)
        finally:
            self._pass(-1)

    def _pass(self, count):
        with self.lock:
            self._open += count

    def _talk(self, link):
        link.settimeout(PATIENCE * 4)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self._shaken(link) as link:
                self.talk(link)
        except (OSError, ValueError):
            pass

    def _shaken(self, link):
        if not self.context:
            return link
        shaken = self.context.wrap_socket(link, server_side=True, do_handshake_on_connect=False)
        try:
            shaken.do_handshake()
        except OSError:
            shaken.close()
            raise
        return shaken

    def talk(self, link):
        raise NotImplementedError

    def forget(self):
        self.settle()
        with self.lock:
            self._arrived.clear()
            self._server_names.clear()


class Echo(Server):
    """Says the greeting, if there is one, and then whatever it hears."""

    def __init__(self, greeting=b"", **more):
        self.greeting, self.heard = greeting, b""
        super().__init__(**more)

    def talk(self, link):
        if self.greeting:
            link.sendall(self.greeting)
        while part := link.recv(65536):
            with self.lock:
                self.heard += part
            link.sendall(part)

    def forget(self):
        super().forget()
        with self.lock:
            self.heard = b""


class Request:
    def __init__(self, connection, to, head):
        self.connection, self.to = connection, to
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.method, self.target = (lines[0].split(" ") + ["", ""])[:2]
        self.fields = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:] if ":" in line]
        self.body = b""

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name]

    def field(self, name):
        return (self.all(name) or [None])[0]


@functools.lru_cache(4)
def many(count):
    """One piece of memory for all who ask for so much."""
    return b"x" * count


class Web(Server):
    """HTTP/1.1, kept alive. Answers what it was asked as JSON, and

    /bytes/N   N bytes           /to/URL   a redirection there
    /hold      the head and a first byte, then nothing until release() or until the client has left
    /echo      the body
    """

    def __init__(self, **more):
        self._requests, self.raw = [], b""
        self.pages = {}  # path → (type, bytes), for whoever serves something of his own
        self.held, self.released = threading.Semaphore(0), threading.Event()
        self.left = threading.Semaphore(0)
        super().__init__(**more)

    @property
    def requests(self):
        self.settle()
        with self.lock:
            return list(self._requests)

    def targets(self):
        return [request.target for request in self.requests]

    def hosts(self):
        return [request.field("host") for request in self.requests]

    def forget(self):
        super().forget()
        with self.lock:
            self._requests.clear()
            self.raw = b""

    def release(self):
        self.released.set()

    def talk(self, link):
        to, stream = plain(link.getsockname()[0]), link.makefile("rb")
        while (request := self._read(link, stream, to)) is not None:
            with self.lock:
                self._requests.append(request)
            if not self._reply(link, request):
                return

    def _read(self, link, stream, to):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline(65537)
            if not line:
                return None
            if not head and not line.strip():
                continue  # lenient, as many servers are: empty lines before a request
            head += line
        with self.lock:
            self.raw += head
        request = Request(id(link), to, head[:-4])
        if (request.field("expect") or "").lower() == "100-continue":
            link.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in (request.field("transfer-encoding") or "").lower():
            while size := int(stream.readline(), 16):
                request.body += stream.read(size)
                stream.readline()
            stream.readline()
        else:
            request.body = stream.read(int(request.field("content-length") or 0))
        return request

    def answer(self, request):
        """(status, fields, body), for whoever serves something of his own; None leaves it to the pages and words
        above."""
        return None

    def _usual(self, request):
        path = request.target.partition("?")[0]
        if path in self.pages:
            kind, body = self.pages[path]
            return "200 OK", f"Content-Type: {kind}\r\n", body
        if path.startswith("/bytes/"):
            return "200 OK", "Content-Type: application/octet-stream\r\n", many(int(path.split("/")[2]))
        if path.startswith("/to/"):
            return "302 Found", f"Location: {request.target[4:]}\r\n", b""
        if path == "/echo":
            return "200 OK", "Content-Type: application/octet-stream\r\n", request.body
        if self.pages:
            return "404 Not Found", "", b""
        said = {"method": request.method, "target": request.target, "host": request.field("host"), "to": request.to,
                "length": len(request.body)}
        return "200 OK", "Content-Type: application/json\r\n", json.dumps(said).encode()

    def _reply(self, link, request):
        if request.target == "/hold":
            return self._hold(link)
        status, fields, body = self.answer(request) or self._usual(request)
        head = f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
        link.sendall(head.encode("latin-1"))
        if request.method != "HEAD":
            link.sendall(body)
        return (request.field("connection") or "").lower() != "close"

    def _hold(self, link):
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n1")
        self.held.release()
        watcher = threading.Thread(target=self._watch, args=(link,), daemon=True)
        watcher.start()
        self._pass(-1)  # nobody waits for this one
        self.released.wait(PATIENCE * 2)
        self._pass(1)
        link.sendall(b"2")
        return False

    def _watch(self, link):
        try:
            gone = not link.recv(1)
        except OSError:
            gone = True
        if gone:
            self.left.release()

"""The side of a test that runs inside a sandbox. Copied into its folder; the standard library only. A probe does what
no well-behaved client would, and says what came of it as plain values, which go out as one line of JSON.
"""

import errno
import json
import os
import socket
import ssl
import struct
import sys
import time

PROXY, SOCKS, NAMES = 3128, 1080, 53
PATIENCE = 20.0
out = {}


def told(value=None):
    """The last word of a probe."""
    print(json.dumps(out if value is None else value))
    sys.stdout.flush()


def name_of(error):
    if isinstance(error, TimeoutError):
        return "timeout"
    return errno.errorcode.get(error.errno, type(error).__name__)


def receive(link, until=None, most=1 << 24):
    """Everything until the other side ends, or until the bytes were seen. A reset is an end, too."""
    seen = b""
    try:
        while len(seen) < most and not (until and until in seen):
            part = link.recv(65536)
            if not part:
                break
            seen += part
    except (ConnectionResetError, BrokenPipeError):
        pass
    except TimeoutError:
        seen += b"[timeout]"
    return seen


def talk(data, port=PROXY, host="127.0.0.1", until=None):
    """Bytes to a listener inside, as they are; what came back, as text."""
    data = data.encode("latin-1") if isinstance(data, str) else data
    try:
        with socket.create_connection((host, port), PATIENCE) as link:
            try:
                link.sendall(data)
                if until is None:
                    link.shutdown(socket.SHUT_WR)
            except (ConnectionResetError, BrokenPipeError, OSError):
                pass
            return receive(link, until).decode("latin-1")
    except OSError as error:
        return name_of(error)


def status(reply):
    words = reply.split(" ", 2)
    return int(words[1]) if reply.startswith("HTTP/1.1 ") and words[1].isdigit() else 0


def one_answer(link):
    """(status, body) of the next answer on a connection that goes on; 0 when there is none."""
    head = b""
    try:
        while not head.endswith(b"\r\n\r\n"):
            part = link.recv(1)
            if not part:
                return 0, ""
            head += part
        sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        left, body = int(sizes[0][15:]) if sizes else 0, b""
        while len(body) < left and (part := link.recv(left - len(body))):
            body += part
    except OSError:
        return 0, ""
    return status(head.decode("latin-1")), body.decode("latin-1")


def get(target, host=None, method="GET", more="", body=""):
    """One forwarded request, and its whole answer. Without a host, the one of the target."""
    host = target.split("/")[2] if host is None else host
    return talk(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n{body}")


def tunnel(target, host=None):
    """(socket, status) of a CONNECT."""
    link = socket.create_connection(("127.0.0.1", PROXY), PATIENCE)
    field = target if host is None else host
    link.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {field}\r\n\r\n".encode("latin-1"))
    return link, status(receive(link, b"\r\n\r\n").decode("latin-1"))


def socks(host, port, kind=3):
    """(socket, reply byte) of a SOCKS5 connection by name, or by an address (kind 1 or 4)."""
    link = socket.create_connection(("127.0.0.1", SOCKS), PATIENCE)
    link.sendall(b"\x05\x01\x00")
    link.recv(2)
    if kind == 3:
        name = host.encode("latin-1")
        address = bytes([len(name)]) + name
    else:
        address = socket.inet_pton(socket.AF_INET if kind == 1 else socket.AF_INET6, host)
    link.sendall(b"\x05\x01\x00" + bytes([kind]) + address + struct.pack(">H", port))
    try:
        reply = link.recv(64)
    except OSError:
        reply = b""
    return link, (reply[1] if len(reply) > 1 else -1)


def over_tls(link, server_name, request=b"GET /tls HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host=None):
    """What a web server says behind TLS on this connection; the name of the error when it did not come to that."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    link.settimeout(PATIENCE)
    try:
        with context.wrap_socket(link, server_hostname=server_name) as inner:
            inner.sendall(request.replace(b"%s", (host or server_name or "").encode()))
            return receive(inner).decode("latin-1")
    except OSError as error:
        return name_of(error)


def hello(server_name, context=None):
    """The bytes of a ClientHello, without a connection."""
    context = context or ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    pending = context.wrap_bio(incoming, outgoing, server_hostname=server_name)
    try:
        pending.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def reach(address, port, data=b"", kind=socket.SOCK_STREAM, wait=PATIENCE):
    """What comes of going straight to an address: what was answered, or the error's name."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as link:
        link.settimeout(wait)
        try:
            link.connect((address, port))
            if data or kind == socket.SOCK_DGRAM:
                link.send(data)
            if kind == socket.SOCK_STREAM:
                link.shutdown(socket.SHUT_WR)
            return "got " + link.recv(65536).decode("latin-1")
        except OSError as error:
            return name_of(error)


def query(name, kind=1, tcp=False, labels=None, edit=None):
    """(code, addresses) of the resolver inside; None when it does not answer. `labels` are raw, `edit` may spoil the
    message."""
    labels = [label.encode("latin-1") for label in name.split(".")] if labels is None else labels
    question = b"".join(bytes([len(label)]) + label for label in labels if label) + b"\0"
    message = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0" + question + struct.pack(">HH", kind, 1)
    message = edit(message) if edit else message
    try:
        if tcp:
            with socket.create_connection(("127.0.0.1", NAMES), PATIENCE) as link:
                link.sendall(struct.pack(">H", len(message)) + message)
                link.shutdown(socket.SHUT_WR)
                answer = receive(link)[2:]
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
                link.settimeout(PATIENCE)
                link.connect(("127.0.0.1", NAMES))
                link.send(message)
                answer = link.recv(65536)
    except OSError as error:
        return [name_of(error), []]
    if len(answer) < 12:
        return [None, []]
    return [answer[3] & 15, addresses_in(answer, len(question) + 16)]


def addresses_in(answer, at):
    found = []
    for _ in range(struct.unpack(">H", answer[6:8])[0]):
        while answer[at] and answer[at] < 192:
            at += answer[at] + 1
        at += 2 if answer[at] >= 192 else 1
        kind, _, _, size = struct.unpack(">HHIH", answer[at : at + 10])
        data = answer[at + 10 : at + 10 + size]
        if kind in (1, 28):
            found.append(socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, data))
        at += 10 + size
    return found


def without_variables():
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]


def until(condition, patience=PATIENCE):
    """The first true value; False when none came in time."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    return False

"""Which server, and who we are: arguments, then the environment, then ~/.config/caisson/client.yaml, then this machine.

The same places in the same order as the command line's, and the same care: a token is sent only where its own source
meant it to go, and a file that others can read or change is refused.
"""

from __future__ import annotations

import os
import stat
from typing import Mapping, NamedTuple
from urllib.parse import urlsplit

from .errors import CaissonError

DEFAULT_URL = "http://127.0.0.1:8080"
URL_CHARACTERS_MAX = 1024
TOKEN_CHARACTERS_MAX = 512
FILE_BYTES_MAX = 64 * 1024


class ConfigurationError(CaissonError, ValueError):
    """The address, the token or the client's own file is wrong."""


class Endpoint(NamedTuple):
    host: str
    port: int
    tls: bool
    prefix: str  # a path before ours, without a slash at its end
    token: str

    def __repr__(self) -> str:  # without the token
        return f"<Endpoint {self.authority}>"

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.tls else 80) else f"{name}:{self.port}"


def find_endpoint(url: str | None, token: str | None, env: Mapping[str, str] | None = None) -> Endpoint:
    env = os.environ if env is None else env
    url = url or env.get("CAISSON_URL", "")
    token = env.get("CAISSON_TOKEN", "") if token is None else token
    if not url or not token:
        file_url, file_token = _read_file(env)
        home = file_url or DEFAULT_URL
        url = url or home
        if not token and url == home:
            token = file_token
    _check("url", url, URL_CHARACTERS_MAX)
    _check("token", token, TOKEN_CHARACTERS_MAX)
    return _parse(url, token)


def _check(what: str, text: str, most: int) -> None:
    # Both go into a request head, where a line break would be a header of somebody else's making.
    if len(text) > most or any(not "!" <= one <= "~" for one in text):
        raise ConfigurationError(f"{what}: want printable characters without spaces, at most {most}")


def _parse(url: str, token: str) -> Endpoint:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"url is {url!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"url is {url!r}: want http://HOST[:PORT] or https://HOST[:PORT]")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError("url: a user, a query or a fragment has no place in it; give the token as `token`")
    tls = parts.scheme == "https"
    return Endpoint(host, port or (443 if tls else 80), tls, parts.path.rstrip("/"), token)


def _read_file(env: Mapping[str, str]) -> tuple[str, str]:
    folder = env.get("XDG_CONFIG_HOME", "")
    if not folder:
        if not env.get("HOME"):
            return "", ""
        folder = os.path.join(env["HOME"], ".config")
    path = os.path.join(folder, "caisson", "client.yaml")
    try:
        # O_NONBLOCK: a fifo in its place must not keep us waiting.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return "", ""
    except OSError as error:
        raise ConfigurationError(f"open {path}: {error.strerror}") from None
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ConfigurationError(f"{path} is not a regular file")
        if info.st_uid not in (os.geteuid(), 0):
            raise ConfigurationError(f"{path} belongs to somebody else")
        if info.st_mode & 0o077:
            raise ConfigurationError(f"{path} can be read or changed by others; run: chmod 600 {path}")
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ConfigurationError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return _read_words(path, text.decode("utf-8", "replace"))


def _read_words(path: str, text: str) -> tuple[str, str]:
    """Of YAML, what such a file holds: `url: WORD` and `token: WORD`, plain or in quotes, and comments."""
    found = {"url": "", "token": ""}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#") or line in ("---", "..."):
            continue
        name, colon, value = line.partition(":")
        if not colon or name not in found:
            raise ConfigurationError(f"{path}:{number}: want `url: …` or `token: …`")
        value = value.strip()
        if value[:1] in ("'", '"'):
            word, closed, rest = value[1:].partition(value[0])
            if not closed or (rest.strip() and not rest.strip().startswith("#")):
                raise ConfigurationError(f"{path}:{number}: the quotes of {name} do not match")
        else:
            word = value.partition(" #")[0].strip()
        found[name] = word
    return found["url"], found["token"]

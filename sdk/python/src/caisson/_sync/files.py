# Made from _async/files.py by generate_sync.py: change it there.
"""Files and folders of a sandbox. Paths are relative to its workspace, or absolute inside."""

from __future__ import annotations

from types import TracebackType
from typing import Iterable, List, Type

from .. import _operations as op
from .._wire import Request
from ..models import FileEntry, FileHead, Removed, Unpacked, Written
from ..requests import MkdirRequest, MoveRequest
from .caller import Caller
from .exchange import Exchange
from .link import clock
from .stream import Watch

OCTETS = {"Content-Type": "application/octet-stream"}
TAR = {"Content-Type": "application/x-tar"}


class Download:
    """Bytes of a file or an archive as they come: for those that shall not be held in memory."""

    def __init__(self, caller: Caller, request: Request, timeout: float | None) -> None:
        self._caller = caller
        self._request = request
        self._timeout = caller.timeout if timeout is None else timeout
        self._exchange: Exchange | None = None
        self.etag = ""
        self.size: int | None = None  # where the server says it

    def __enter__(self) -> Download:
        self._open()
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._exchange is not None:
            self._exchange.close()

    def __iter__(self) -> Download:
        return self

    def __next__(self) -> bytes:
        exchange = self._open()
        data = exchange.read_piece(clock() + self._timeout)  # for each piece, not for all of them
        if data is None:
            raise StopIteration
        return data

    def _open(self) -> Exchange:
        if self._exchange is None:
            self._exchange, head = self._caller.open(self._request, clock() + self._timeout)
            self.etag = head.fields.get("etag", "")
            length = head.fields.get("content-length", "")
            self.size = int(length) if length.isdigit() else None
        return self._exchange


class Files:
    """`sandbox.files`."""

    def __init__(self, caller: Caller, sandbox: str) -> None:
        self._caller = caller
        self._id = sandbox

    def _path(self, path: str) -> dict[str, str | int]:
        return {"id": self._id, "path": path}

    def read(self, path: str, *, offset: int = 0, length: int | None = None,
                   timeout: float | None = None) -> bytes:
        """All of it, or a range."""
        if length is not None and length <= 0:
            return b""
        headers = {}
        if offset or length is not None:
            last = "" if length is None else str(offset + length - 1)
            headers["Range"] = f"bytes={offset}-{last}"
        return self._caller.call(op.DOWNLOAD_FILE, self._path(path), headers=headers, timeout=timeout)

    def read_text(self, path: str, *, timeout: float | None = None) -> str:
        return (self.read(path, timeout=timeout)).decode()

    def download(self, path: str, *, timeout: float | None = None) -> Download:
        """The same piece by piece, for large files."""
        return Download(self._caller, self._caller.request(op.DOWNLOAD_FILE, self._path(path)), timeout)

    def head(self, path: str) -> FileHead:
        """Size, ETag and type, without the content."""
        request = self._caller.request(op.HEAD_FILE, self._path(path))
        exchange, head = self._caller.open(request, clock() + self._caller.timeout)
        exchange.close()
        return FileHead(size=int(head.fields.get("content-length", "0")), etag=head.fields.get("etag", ""),
                        content_type=head.fields.get("content-type", ""))

    def write(self, path: str, content: bytes | str | Iterable[bytes], *, mode: str | None = None,
                    if_match: str | None = None, if_none_match: str | None = None,
                    timeout: float | None = None) -> Written:
        """The file appears whole or not at all; folders above it are made. `mode` is octal, such as "0755"."""
        headers = dict(OCTETS)
        if if_match is not None:
            headers["If-Match"] = if_match
        if if_none_match is not None:
            headers["If-None-Match"] = if_none_match
        body = content.encode() if isinstance(content, str) else content
        return self._caller.call(op.UPLOAD_FILE, self._path(path), query={"mode": mode}, headers=headers,
                                       body=body, timeout=timeout)

    def remove(self, path: str, *, recursive: bool = False) -> Removed:
        return self._caller.call(op.REMOVE_FILE, self._path(path), query={"recursive": recursive})

    def stat(self, path: str, *, follow: bool = True) -> FileEntry:
        return self._caller.call(op.STAT_FILE, self._path(path), query={"follow": follow})

    def list(self, path: str = "", *, recursive: bool = False) -> List[FileEntry]:
        answer = self._caller.call(op.LIST_FILES, self._path(path), query={"recursive": recursive})
        return answer.entries

    def mkdir(self, path: str, *, parents: bool = True) -> None:
        """With `parents`, what is missing above it is made, and one that exists is no error."""
        body = MkdirRequest(path=path, parents=parents)
        self._caller.call(op.MAKE_FOLDER, {"id": self._id}, body=body)

    def move(self, source: str, target: str, *, replace: bool = False) -> None:
        body = MoveRequest(from_=source, to=target, replace=replace)
        self._caller.call(op.MOVE_FILE, {"id": self._id}, body=body)

    def watch(self, path: str = "", *, recursive: bool = False) -> Watch:
        """Changes below a path, from the beginning of the block on."""
        return Watch(self._caller, lambda last_id: self._caller.request(
            op.WATCH_FILES, self._path(path), query={"recursive": recursive}))

    def archive(self, path: str = "", *, timeout: float | None = None) -> bytes:
        """A folder as a tar archive."""
        return self._caller.call(op.DOWNLOAD_ARCHIVE, self._path(path), timeout=timeout)

    def download_archive(self, path: str = "", *, timeout: float | None = None) -> Download:
        """The same piece by piece."""
        return Download(self._caller, self._caller.request(op.DOWNLOAD_ARCHIVE, self._path(path)), timeout)

    def unpack(self, archive: bytes | Iterable[bytes], path: str = "", *,
                     timeout: float | None = None) -> Unpacked:
        """A plain tar archive into a folder."""
        return self._caller.call(op.UPLOAD_ARCHIVE, self._path(path), headers=TAR, body=archive, timeout=timeout)

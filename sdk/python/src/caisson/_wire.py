"""From an operation and its arguments to a request, and from an answer to a value or an error. No sockets here."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Mapping, NamedTuple, TypeVar, cast
from urllib.parse import quote, urlencode

from ._endpoint import Endpoint
from ._http1 import Head, whole_number
from ._model import Model
from ._operations import Nothing, Operation
from .errors import BY_CODE, ApiError, BadAnswerError, DeniedError

T = TypeVar("T")

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
ERROR_BYTES_MAX = 1024 * 1024
ANSWER_BYTES_MAX = 256 * 1024 * 1024  # of an answer that is collected; larger ones can be streamed


class Request(NamedTuple):
    operation: Operation[Any]
    target: str
    fields: tuple[tuple[str, str], ...]
    body: bytes | Iterable[bytes] | None  # an iterable is sent in chunks, and only once
    repeatable: bool  # also when nobody knows whether it was done

    def __repr__(self) -> str:  # without the token, which is one of the fields
        return f"<Request {self.operation.method} {self.target}>"


def file_part(path: str) -> str:
    """A path as the last part of a route; a leading slash as %2F, which also proxies that merge slashes let pass.

    The server refuses `..`; but a proxy before it may have made another route of it by then, so it is refused here.
    """
    if ".." in path.split("/"):
        raise DeniedError("path: holds '..'; name the path from the workspace or from the root, without it",
                          details={"field": "path"})
    return "%2F" + quote(path[1:], safe="/") if path.startswith("/") else quote(path, safe="/")


def name_part(name: str, value: str | int) -> str:
    """An id or a name as one part of a route."""
    text = str(value)
    if text in ("", ".", ".."):
        raise ValueError(f"{name} is {text!r}: want the id or the name of something")
    return quote(text, safe="")


def build(endpoint: Endpoint, operation: Operation[Any], path: Mapping[str, str | int], query: Mapping[str, Any],
          headers: Mapping[str, str], body: Model | bytes | Iterable[bytes] | None, raw_query: str = "") -> Request:
    values = {name: file_part(str(value)) if name == "path" else name_part(name, value)
              for name, value in path.items()}
    target = endpoint.prefix + operation.path.format_map(values)
    asked = {name: _query_text(value) for name, value in query.items() if value is not None}
    unknown = set(asked) - set(operation.query)
    if unknown:
        raise ValueError(f"{operation.name} has no query parameter {sorted(unknown)}")
    if asked:
        target += "?" + urlencode(asked)
    elif raw_query:
        target += "?" + raw_query
    fields = {"Host": endpoint.authority, "User-Agent": "caisson-python", **headers}
    if endpoint.token:
        fields["Authorization"] = f"Bearer {endpoint.token}"
    if isinstance(body, Model):
        body = json.dumps(body.to_json(), separators=(",", ":"), allow_nan=False).encode()
        fields["Content-Type"] = JSON
    # A second upload that asks for the state before the first would be refused.
    repeatable = operation.repeatable and not fields.keys() & {"If-Match", "If-None-Match"}
    if operation.keyed and fields.get("Accept") != EVENT_STREAM:
        fields["Idempotency-Key"] = os.urandom(16).hex()
        repeatable = True
    if isinstance(body, bytes):
        fields["Content-Length"] = str(len(body))
    elif body is not None:
        fields["Transfer-Encoding"] = "chunked"
        repeatable = False
    elif operation.method in ("POST", "PUT", "PATCH"):
        fields["Content-Length"] = "0"
    return Request(operation, target, tuple(fields.items()), body, repeatable)


def _query_text(value: Any) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    return str(value)


def read_value(operation: Operation[T], body: bytes) -> T:
    """The value of a good answer."""
    value: Any = body
    if operation.answer is str:
        value = body.decode("utf-8", "replace")
    elif operation.answer is Nothing:
        value = Nothing()
    elif issubclass(operation.answer, Model):
        try:
            value = operation.answer.from_json(json.loads(body))
        except ValueError:
            raise BadAnswerError(f"{operation.name}: the answer is no JSON: {body[:80]!r}") from None
    return cast(T, value)


def retry_after(head: Head) -> float | None:
    seconds = whole_number(head.fields.get("retry-after", ""))
    return None if seconds is None else float(seconds)


def read_error(head: Head, body: bytes) -> ApiError | BadAnswerError:
    try:
        error = json.loads(body)["error"]
        return make_error(error, head.status, retry_after(head))
    except (ValueError, KeyError, TypeError):
        pass
    request_id = head.fields.get("x-request-id", "")
    if head.status < 400 or not request_id:
        return BadAnswerError(f"no answer of this API: {head.status} {body[:80]!r}")
    # To HEAD there is no body.
    code = BY_STATUS.get(head.status, "")
    kind = BY_CODE.get(code, ApiError)
    return kind(f"status {head.status}", code=code, status=head.status, request_id=request_id,
                retry_after=retry_after(head))


def own_refusal(head: Head, body: bytes) -> ApiError | None:
    """The server's refusal of a request to a port; None: a program inside answered, whatever it said.

    The server's own carries the id of this request, which no program inside can know.
    """
    own = head.fields.get("x-request-id", "")
    if head.status >= 400 and own and own.encode() in body:
        error = read_error(head, body)
        if isinstance(error, ApiError) and error.request_id == own:
            return error
    return None


def make_error(error: Mapping[str, Any], status: int = 0, after: float | None = None) -> ApiError:
    code = str(error["code"])
    kind = BY_CODE.get(code, ApiError)
    return kind(str(error["message"]), code=code, status=status, details=error.get("details"),
                request_id=str(error.get("request_id", "")), retry_after=after)


BY_STATUS = {400: "InvalidArgument", 401: "Unauthenticated", 403: "Denied", 404: "NotFound", 409: "Busy", 410: "Gone",
             412: "PreconditionFailed", 416: "RangeNotSatisfiable", 429: "Exhausted", 500: "Internal",
             501: "Unsupported", 503: "LauncherGone", 504: "TimedOut", 507: "StoreFull"}

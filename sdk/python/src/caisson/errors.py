"""What can go wrong, by type. One class for each error code of the API, and a few for what happens without an answer.

    CaissonError
      ApiError                 the server refused: code, message, field, details, request_id, status
        NotFoundError, DeniedError, …
      ServerUnavailableError   nobody is there to do it; later may work (also LauncherGoneError, StoppingError)
        ConnectionFailedError  no connection could be made, so nothing was done
        ConnectionLostError    the connection broke before the answer came
      CallTimedOutError        no answer within the time that this client waits (TimedOutError: the server's own time)
      BadAnswerError           what answered does not speak this API
"""

from __future__ import annotations

from typing import Any, ClassVar, Mapping, Type

__all__ = [
    "AlreadyExistsError", "ApiError", "BadAnswerError", "BusyError", "CaissonError", "CallTimedOutError",
    "ConflictError", "ConnectionFailedError", "ConnectionLostError", "DeniedError", "ExhaustedError", "GoneError",
    "InternalError", "InvalidArgumentError", "LauncherGoneError", "MethodNotAllowedError", "MisdirectedHostError",
    "NotFoundError", "PreconditionFailedError", "ProtocolError", "RangeNotSatisfiableError",
    "ServerUnavailableError", "StoppingError", "StoreFullError", "TimedOutError", "TooLargeError",
    "UnauthenticatedError", "UnsupportedError", "UnsupportedMediaTypeError", "UpgradeRequiredError",
]


class CaissonError(Exception):
    """All of ours."""


class ServerUnavailableError(CaissonError):
    """Nobody is there to do it. Later may work."""

    sent: bool = False  # the request had begun to leave when it happened


class ConnectionFailedError(ServerUnavailableError):
    """No connection could be made: nothing was sent, so nothing was done."""


class ConnectionLostError(ServerUnavailableError):
    """The connection broke before the answer was whole. Unless the call can be repeated, nobody knows what was done."""


class CallTimedOutError(CaissonError, TimeoutError):
    """The client's own patience: no answer within `timeout` seconds."""


class BadAnswerError(CaissonError):
    """What answered is no server of caisson, or one whose answers this version cannot read."""


class ApiError(CaissonError):
    """The server's refusal."""

    code: ClassVar[str] = ""

    def __init__(self, message: str, *, code: str = "", status: int = 0, details: Mapping[str, Any] | None = None,
                 request_id: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.actual_code = code or self.code  # of a newer server it may be one without a class
        self.status = status
        self.details: Mapping[str, Any] = details or {}
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def field(self) -> str | None:
        """Which field of the request is wrong, where one is."""
        value = self.details.get("field")
        return value if isinstance(value, str) else None

    def __str__(self) -> str:
        return f"{self.actual_code}: {self.message}" if self.actual_code else self.message


class InvalidArgumentError(ApiError, ValueError):
    """The input is wrong; the message names the field, the value and the remedy."""

    code = "InvalidArgument"


class UnauthenticatedError(ApiError):
    """No token, or one that the server does not know."""

    code = "Unauthenticated"


class DeniedError(ApiError, PermissionError):
    """A scope, a policy or the sandbox's list of tools says no."""

    code = "Denied"


class NotFoundError(ApiError, LookupError):
    """No such sandbox, process, file or route; or not yours."""

    code = "NotFound"


class MethodNotAllowedError(ApiError):
    """The route has other methods: an address that is no server's root, or an older server."""

    code = "MethodNotAllowed"


class AlreadyExistsError(ApiError):
    """A name is taken."""

    code = "AlreadyExists"


class BusyError(ApiError):
    """Its state forbids it now; later may work."""

    code = "Busy"


class ConflictError(ApiError):
    """A merge found files that were changed on both sides; nothing was applied."""

    code = "Conflict"

    @property
    def conflicts(self) -> list[str]:
        """Their paths, the first thousand of them."""
        return [str(path) for path in self.details.get("conflicts", ())]


class GoneError(ApiError):
    """The sandbox ended while the call waited."""

    code = "Gone"


class PreconditionFailedError(ApiError):
    """The file is not in the state that `if_match` or `if_none_match` asks for."""

    code = "PreconditionFailed"


class TooLargeError(ApiError):
    """A body or a request beyond its limit."""

    code = "TooLarge"


class UnsupportedMediaTypeError(ApiError):
    """The body has another type than the route takes."""

    code = "UnsupportedMediaType"


class RangeNotSatisfiableError(ApiError):
    """The range lies behind the end of the file."""

    code = "RangeNotSatisfiable"


class MisdirectedHostError(ApiError):
    """The server does not know the host's name by which it was called."""

    code = "MisdirectedHost"


class UpgradeRequiredError(ApiError):
    """The route is a WebSocket."""

    code = "UpgradeRequired"


class ExhaustedError(ApiError):
    """A limit is reached; the message names it."""

    code = "Exhausted"


class InternalError(ApiError):
    """A fault of the server; its log has the details under `request_id`."""

    code = "Internal"


class UnsupportedError(ApiError):
    """This server, host or version cannot do it."""

    code = "Unsupported"


class ProtocolError(ApiError):
    """A program behind the server, such as the one on a sandbox's port, did not answer as it should."""

    code = "Protocol"


class LauncherGoneError(ApiError, ServerUnavailableError):
    """The server lives, and nobody is there to make or reach sandboxes."""

    code = "LauncherGone"


class StoppingError(ApiError, ServerUnavailableError):
    """The server is being stopped and takes no new call."""

    code = "Stopping"


class TimedOutError(ApiError, TimeoutError):
    """The server's own deadline passed. Never of a command: that is a result with `timed_out`."""

    code = "TimedOut"


class StoreFullError(ApiError):
    """The audit cannot be written, so nothing may be done."""

    code = "StoreFull"


BY_CODE: dict[str, Type[ApiError]] = {
    kind.code: kind for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, ApiError) and kind.code
}

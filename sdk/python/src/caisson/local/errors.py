"""What can go wrong, as exceptions. The compiled module raises them."""

from __future__ import annotations

from caisson.errors import CaissonError


class _LocalError(CaissonError):
    """An error of the library.

    `code` is the library's word for it and what a program acts on: NotFound, Denied, Unsupported, Gone, …; the message
    is for people. `field` says which part of the input is wrong, where that is known. `errno` is 0 when no system call
    was involved.
    """

    def __init__(self, message: str, *, code: str = "Internal", field: str = "", errno: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.field = field
        self.errno = errno

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), self.code, self.field, self.errno)


class SandboxError(_LocalError):
    """A sandbox could not be made, found or used."""


class CapabilityParseError(_LocalError, ValueError):
    """A capability file cannot be read, is no YAML, or says something that cannot be; the message names the line."""


def _rebuild(kind: type[_LocalError], message: str, code: str, field: str, errno: int) -> _LocalError:
    return kind(message, code=code, field=field, errno=errno)

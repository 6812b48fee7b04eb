"""What a declaration says about a path, as text. Inside a sandbox the kernel enforces it."""

from __future__ import annotations

import os

from caisson import _native
from caisson.local.models import FilesystemConfig


class FilesystemPolicy:
    """`workdir` is the sandbox's working folder; without it, relative writable paths match nothing."""

    def __init__(self, config: FilesystemConfig, workdir: str = "") -> None:
        self._config = config
        self._policy = _native.FilesystemPolicy(config, workdir)

    def can_read(self, path: str | os.PathLike[str]) -> bool:
        return self.deny_reason(path, "read") is None

    def can_write(self, path: str | os.PathLike[str]) -> bool:
        return self.deny_reason(path, "write") is None

    def deny_reason(self, path: str | os.PathLike[str], mode: str) -> str | None:
        """Why not, or None when it is allowed. `mode` is "read" or "write"; another word is a ValueError."""
        return self._policy.deny_reason(os.fspath(path), mode)

    def __repr__(self) -> str:
        return f"FilesystemPolicy({self._config!r})"


def validate_path_access(path: str | os.PathLike[str], mode: str, config: FilesystemConfig) -> bool:
    """One question without a policy object."""
    return FilesystemPolicy(config).deny_reason(path, mode) is None

"""Where the caisson command is, which the library starts as its launcher; caissond, for a way out, lies beside it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import caisson
from caisson.local.errors import SandboxError


def _candidates() -> list[str]:
    named = os.environ.get("CAISSON_PROGRAM")
    if named:
        return [named]  # who names one means that one
    folder = os.environ.get("CAISSON_BIN")
    inside = [str(Path(place) / "bin" / "caisson") for place in caisson.__path__]
    return [*([str(Path(folder) / "caisson")] if folder else []), *inside, "caisson"]


def find_program() -> str:
    """$CAISSON_PROGRAM; else the one in $CAISSON_BIN, in this package, or in the PATH."""
    tried = _candidates()
    for candidate in tried:
        found = shutil.which(candidate)
        if found:
            return str(Path(found).absolute())
    raise SandboxError(
        f"the caisson command is not here (looked for {', '.join(tried)}); install a wheel that carries it, put it "
        "into the PATH, or name it in CAISSON_PROGRAM",
        code="NotFound",
    )

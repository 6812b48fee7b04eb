"""The account of what a sandbox used, and its limits. It says when a limit is passed, and ends nothing.

Memory and CPU time of a sandbox are the kernel's to enforce; tokens and cost are those that are recorded here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caisson import _native
from caisson.local.models import ResourceLimits

_KIB_PER_MIB = 1024
# Fields of /proc/PID/stat behind the name in parentheses: user and system time, in ticks of the clock.
_USER_TIME, _SYSTEM_TIME = 11, 12


class ResourceMonitor:
    """Safe from many threads. It works without start(), which begins to count the time."""

    def __init__(self, limits: ResourceLimits) -> None:
        self._limits = limits
        self._monitor = _native.ResourceMonitor(limits)
        self._pid: int | None = None

    @classmethod
    def _of(cls, limits: ResourceLimits, monitor: _native.ResourceMonitor) -> ResourceMonitor:
        """The account of a live sandbox."""
        made = cls.__new__(cls)
        made._limits, made._monitor, made._pid = limits, monitor, None
        return made

    @property
    def limits(self) -> ResourceLimits:
        return self._limits

    def start(self, pid: int | None = None) -> None:
        """Begins to count the time. With `pid`, that process is looked at whenever somebody asks, and at stop()."""
        self._monitor.start()
        self._pid = pid

    def stop(self) -> None:
        """Ends it. One that does not run stays as it is, so that this may stand in a `finally`."""
        self._look()
        self._pid = None
        if self._monitor.running():
            self._monitor.stop()

    def record_tokens(self, count: int) -> None:
        self._monitor.record_tokens(count)

    def record_cost(self, amount_usd: float) -> None:
        self._monitor.record_cost(amount_usd)

    def record_memory(self, memory_mb: float) -> None:
        """The peak is the largest that was recorded."""
        self._monitor.record_usage(0.0, memory_mb)

    def snapshot(self) -> dict[str, Any]:
        """cpu_seconds, peak_memory_mb, tokens_used, cost_usd and elapsed_seconds, up to now."""
        self._look()
        return self._monitor.snapshot()

    def check_limits(self) -> tuple[bool, str | None]:
        """(True, None), or False and every limit that is passed. Reaching a limit is not passing it."""
        self._look()
        within, reason = self._monitor.check_limits()
        return within, reason or None

    def _look(self) -> None:
        used = _usage_of(self._pid) if self._pid is not None else None
        if used:
            self._monitor.record_usage(*used)


def _usage_of(pid: int) -> tuple[float, float] | None:
    """CPU seconds and the peak of memory in MiB; None when the process is gone."""
    folder = Path("/proc") / str(pid)
    try:
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        status = (folder / "status").read_text(errors="replace")
    except OSError:
        return None
    ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
    peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), "0")
    return ticks / os.sysconf("SC_CLK_TCK"), int(peak) / _KIB_PER_MIB


def check_limits(current: Mapping[str, Any], limits: ResourceLimits) -> tuple[bool, str | None]:
    """A snapshot against limits; what is missing in it counts as 0."""
    account = _native.ResourceMonitor(limits)
    account.record_tokens(current.get("tokens_used", 0))
    account.record_cost(current.get("cost_usd", 0.0))
    account.record_usage(current.get("cpu_seconds", 0.0), current.get("peak_memory_mb", 0.0))
    within, reason = account.check_limits()
    return within, reason or None

"""May a sandbox with these rules connect there? The same judgement that the gate makes outside of the sandbox."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from caisson import _native
from caisson.local.models import NetworkEgressRule


@dataclass(frozen=True, kw_only=True)
class EgressDecision:
    """The answer, the reason for it, the place of the rule that allowed it, and the host and port that were judged."""

    allowed: bool
    reason: str
    rule_index: int | None
    host: str
    port: int | None

    def __bool__(self) -> bool:
        return self.allowed


class EgressFilter:
    """Deny by default; the first rule that matches name and port allows."""

    def __init__(self, rules: Iterable[NetworkEgressRule]) -> None:
        self._rules = list(rules)
        self._filter = _native.EgressFilter(self._rules)

    def is_allowed(self, url: str) -> bool:
        """False also for what is no URL."""
        return self.check(url).allowed

    def check(self, url: str) -> EgressDecision:
        return EgressDecision(**self._filter.check(url))

    def rules_for_domain(self, hostname: str) -> list[NetworkEgressRule]:
        """The rules that name this host, whatever their ports are."""
        return [self._rules[place] for place in self._filter.rules_for(hostname)]

    def __repr__(self) -> str:
        return f"EgressFilter({self._rules!r})"


def check_egress(url: str, rules: Iterable[NetworkEgressRule]) -> bool:
    """One question without a filter object."""
    return EgressFilter(rules).is_allowed(url)

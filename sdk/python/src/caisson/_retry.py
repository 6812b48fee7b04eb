"""Whether a call that failed is made once more, and after which pause. Decisions only: others wait.

A call is repeated when that cannot do anything twice:
  - nothing was sent, because no connection could be made;
  - the server said that it did nothing and that waiting helps: 429, 503, or 409 with Retry-After, which says that the
    first call with this key is still under way;
  - the answer was lost, and the request may be made twice by nature (GET, PUT, DELETE) or carries an Idempotency-Key.
"""

from __future__ import annotations

PAUSE_SECONDS_FIRST = 0.1
PAUSE_SECONDS_MAX = 5.0
RETRIES_MAX = 20
STATUSES = (429, 503)


class Retry:
    """One call's attempts."""

    def __init__(self, repeatable: bool, retries: int) -> None:
        self._again = repeatable
        self._left = min(retries, RETRIES_MAX)
        self.made = 0  # attempts that failed

    def after_loss(self, sent: bool) -> float | None:
        """The pause before the next attempt; None: there is none."""
        return self._pause(None) if self._again or not sent else None

    def after_answer(self, status: int, retry_after: float | None) -> float | None:
        if status in STATUSES or (status == 409 and retry_after is not None):
            return self._pause(retry_after)
        return None

    def _pause(self, wish: float | None) -> float | None:
        if self._left <= 0:
            return None
        self._left -= 1
        self.made += 1
        import random  # not worth its price before the first failure

        # Apart from each other: many clients that were refused at once must not come back at once.
        longest: float = min(PAUSE_SECONDS_FIRST * 2 ** (self.made - 1), PAUSE_SECONDS_MAX)
        own = longest * random.uniform(0.5, 1.0)
        return own if wish is None else min(max(wish, own), PAUSE_SECONDS_MAX)

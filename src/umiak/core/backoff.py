"""When something that failed is tried again, and when it is given up. A decider.

    policy = RetryPolicy(first_s=0.25)
    policy.wait_s(1, chance=random())                     about 0.25, after the next failures about 0.5, 1, 2 ...; None: give up
    policy.wait_s(1, chance=random(), retry_after_s=5.0)  5 or a little more: no sooner than the server asks for
    policy.wait_s(1, chance=random(), left_s=0.0)         None: there is no time left

Waits double up to a limit, with jitter: many who lost the same server don't come back all at once.
The caller has the clock, the random numbers and the count of failures in a row.
"""

from __future__ import annotations

from umiak.core.value import value

ATTEMPTS = 6
LONGEST_S = 30.0
JITTER = 0.2
"""A wait is up to this part shorter or longer."""
LONGEST_ASKED_S = 86400.0
RETRIED_STATUSES = (408, 429, 500, 502, 503, 504)
"""Answers of HTTP servers after which the same request may succeed."""


class RequestFailure(Exception):
    """A request that failed."""

    def __init__(self, text: str, *, is_retryable: bool, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.is_retryable = is_retryable
        """Whether the same request may succeed later."""
        self.retry_after_s = retry_after_s
        """How long the server asks to be left alone."""


@value
class RetryPolicy:
    """How often something is tried, and how long the waits between are."""

    first_s: float
    longest_s: float = LONGEST_S
    """A server that asks for a longer wait is not asked again by those whose attempts are counted."""
    attempts: int | None = ATTEMPTS
    """All of them, with the first; None: no limit."""

    def wait_s(
        self, failures: int, chance: float, *, retry_after_s: float = 0.0, left_s: float | None = None
    ) -> float | None:
        """How long to wait after so many failures in a row; None: give up.
        ``chance`` is a random number from 0 to 1, ``left_s`` the time until the deadline.
        """
        if (self.attempts is not None and failures >= self.attempts) or (left_s is not None and left_s <= 0):
            return None
        wait_s = min(self.first_s * 2.0 ** min(failures - 1, 60), self.longest_s) * (1 + JITTER * (2 * chance - 1))
        if retry_after_s > 0:
            if self.attempts is not None and retry_after_s > self.longest_s:
                return None
            if left_s is not None and retry_after_s > left_s:
                return None
            wait_s = max(wait_s, retry_after_s * (1 + JITTER * chance))
        return wait_s if left_s is None else min(wait_s, left_s)


def retry_after_s(header: str, now_s: float) -> float:
    """What an answer's ``Retry-After`` asks for, seconds or a date; 0 without one, at most a day."""
    text = header.strip()
    if text.isdecimal():
        return min(float(text), LONGEST_ASKED_S)
    if not text:
        return 0.0
    from email.utils import parsedate_to_datetime

    try:
        return min(max(parsedate_to_datetime(text).timestamp() - now_s, 0.0), LONGEST_ASKED_S)
    except (TypeError, ValueError, OverflowError):
        return 0.0

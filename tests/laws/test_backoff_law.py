"""Trying again, whatever the figures: waits are bounded and never negative, a server's wish and the deadline are kept, and zero is a value."""

from __future__ import annotations

from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from umiak.adapters.stores.http_retry import chance
from umiak.core.backoff import JITTER, LONGEST_ASKED_S, RetryPolicy, retry_after_s

seconds = st.one_of(st.just(0.0), st.floats(0.0, 1e6))
chances = st.floats(0.0, 1.0)
failures = st.one_of(st.integers(1, 12), st.integers(1, 10**6))
attempts = st.one_of(st.none(), st.integers(0, 12), st.just(10**9))


@effort(1)
@given(seconds, seconds, attempts, failures, chances, seconds, st.one_of(st.none(), st.floats(-10.0, 1e6)))
def test_a_wait_keeps_all_limits(
    first_s: float,
    longest_s: float,
    tried: int | None,
    count: int,
    chance: float,
    asked_s: float,
    left_s: float | None,
) -> None:
    policy = RetryPolicy(first_s=first_s, longest_s=longest_s, attempts=tried)
    wait_s = policy.wait_s(count, chance, retry_after_s=asked_s, left_s=left_s)
    if (policy.attempts is not None and count >= policy.attempts) or (left_s is not None and left_s <= 0):
        assert wait_s is None
    if wait_s is None:
        return
    assert asked_s <= wait_s <= (1 + JITTER) * max(policy.longest_s, asked_s)
    assert left_s is None or wait_s <= left_s


@effort(1)
@given(seconds, seconds, failures, chances, chances)
def test_waits_do_not_shrink_but_for_jitter(
    first_s: float, longest_s: float, count: int, one: float, other: float
) -> None:
    policy = RetryPolicy(first_s=first_s, longest_s=longest_s, attempts=None)
    first, second = policy.wait_s(count, one), policy.wait_s(count + 1, other)
    assert first is not None
    assert second is not None
    assert second >= first * (1 - JITTER) / (1 + JITTER) * (1 - 1e-9)


@effort(1)
@given(st.integers(1, 12), chances, seconds)
def test_as_many_attempts_are_made_as_were_said(attempts: int, chance: float, first_s: float) -> None:
    policy = RetryPolicy(first_s=first_s, attempts=attempts)
    waits = [policy.wait_s(count, chance) for count in range(1, attempts + 1)]
    assert None not in waits[:-1]
    assert waits[-1] is None
    if first_s == 0:
        assert not any(waits)


def test_chance_is_from_0_to_1_and_differs() -> None:
    drawn = [chance() for _ in range(50)]

    assert all(0 <= number < 1 for number in drawn)
    assert len(set(drawn)) > 1


def test_a_server_that_asks_for_more_than_one_would_wait_is_not_asked_again_sooner() -> None:
    assert RetryPolicy(first_s=1.0, longest_s=5.0).wait_s(1, 0.5, retry_after_s=6.0) is None
    assert RetryPolicy(first_s=1.0).wait_s(1, 0.5, retry_after_s=6.0, left_s=5.0) is None
    assert RetryPolicy(first_s=1.0, longest_s=5.0, attempts=None).wait_s(1, 0.0, retry_after_s=6.0) == 6.0


@effort(1)
@given(st.one_of(st.text(max_size=40), st.integers(0, 10**400).map(str), st.integers(0, 4 * 10**9).map(formatdate)))
def test_a_header_is_a_bounded_time_or_nothing(text: str) -> None:
    assert 0 <= retry_after_s(text, 1e9) <= LONGEST_ASKED_S


def test_a_header_is_seconds_or_a_date() -> None:
    assert [retry_after_s(text, 0.0) for text in ("7", " 0 ", "", "soon", "-3", "1.5")] == [7, 0, 0, 0, 0, 0]
    assert retry_after_s("Wed, 18 Nov 2026 20:00:30 GMT", 1795032000.0) == 30
    assert retry_after_s("Wed, 18 Nov 2026 20:00:30 GMT", 1795032060.0) == 0

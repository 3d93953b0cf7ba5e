"""Times as Kubernetes writes them (RFC 3339), in seconds since 1970. A decider."""

from __future__ import annotations

import calendar


def seconds_of(text: str) -> float:
    """``2026-11-16T18:45:18Z``. ValueError if it is none."""
    return nanoseconds_of(text) / 1e9


def nanoseconds_of(text: str) -> int:
    """``2026-11-16T18:45:18.123456789+08:00``, exactly: lines of logs have such times."""
    day, _, rest = text.partition("T")
    clock, offset_s = rest.rstrip("Zz"), 0
    for sign in "+-":
        if sign in clock:
            clock, _, zone = clock.partition(sign)
            hours, _, minutes = zone.partition(":")
            offset_s = (int(hours) * 60 + int(minutes or 0)) * (60 if sign == "+" else -60)
    whole, _, fraction = clock.partition(".")
    parts = [int(each) for each in (*day.split("-"), *whole.split(":"))]
    if len(parts) != 6:
        raise ValueError(f"not a time: {text}")
    seconds = calendar.timegm((*parts, 0, 0, 0)) - offset_s
    return seconds * 10**9 + (int(fraction[:9].ljust(9, "0")) if fraction else 0)


def maybe(text: str | None) -> float | None:
    """None where there is none, or none that can be read."""
    try:
        return seconds_of(text) if text else None
    except ValueError:
        return None


def text_of(seconds: int) -> str:
    """The other way round, in UTC."""
    import datetime as dt

    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

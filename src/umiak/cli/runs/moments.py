"""Moments as people write them: how long ago, a time of day, a date and time. A decider.

moment("10m", now_s=...)                  ten minutes ago
moment("09:30", now_s=...)                the last time it was half past nine here
moment("2026-11-18T09:30+08:00", now_s=...)
"""

from __future__ import annotations

import datetime as dt

SOON_S = 60.0
"""Clocks of machines may differ by so much."""
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def moment(text: str, *, now_s: float, zone: dt.tzinfo | None = None) -> float:
    """Seconds since 1970. ``zone``: of times that name none; None: this machine's. ValueError if it is no moment."""
    moment = max(0.0, _moment(text.strip().removesuffix(" ago").strip(), now_s, zone))
    if moment > now_s + SOON_S:
        raise ValueError(f"it lies in the future: {text}")
    return moment


def _moment(words: str, now_s: float, zone: dt.tzinfo | None) -> float:
    number, unit = words.rstrip("abcdefghijklmnopqrstuvwxyz "), words.lstrip("0123456789.").strip()
    if unit in _UNITS and number:
        return now_s - float(number) * _UNITS[unit]
    if "-" in words:
        day = dt.datetime.fromisoformat(words[:-1] + "+00:00" if words.endswith(("Z", "z")) else words)
        return day.replace(tzinfo=day.tzinfo or zone).timestamp()
    if ":" not in words:
        raise ValueError(f"expected a duration or a time, got {words}")
    clock = dt.time.fromisoformat(words)
    today = dt.datetime.combine(dt.datetime.fromtimestamp(now_s, zone).date(), clock.replace(tzinfo=zone))
    return (today if today.timestamp() <= now_s else today - dt.timedelta(days=1)).timestamp()

"""How long servers took for pulls and pushes: medians and 99th percentiles out of counts in buckets. A decider.

    told_of([(now, before)])      {"pulls": {"count": 9, "p50_s": 0.0004, "p99_s": 0.002, "recent": {...}}, ...}
    octaves(latencies, "pulls")   cumulative counts for Prometheus

A server counts each request in a bucket whose end is a fourth root of 2 above that of the bucket before, from a microsecond on. A quantile is the end
of its bucket, so it is never too small, and up to a fifth too large. Counts of several servers add up, and the difference of two looks is what came
between them. Servers that count nothing are of a version before this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.core.json_types import JsonMapping, JsonObject

KINDS = ("pulls", "pushes", "dense_pulls", "dense_pushes")
MOST_OCTAVES = 26
"""A server's longest bucket but one ends there: at 67 seconds."""


def told_of(looks: Iterable[tuple[JsonMapping, JsonMapping | None]]) -> JsonObject:
    """Of all requests since these servers began, and ``recent``: of those since the look before. Each server has what it says now and what it said then,
    if it was asked. Kinds of which there were none are left out."""
    looks = list(looks)
    found: JsonObject = {}
    for kind in KINDS:
        whole, recent = _Counted(), _Counted()
        for said, earlier in looks:
            latencies = said.get("latencies")
            if not latencies:
                continue
            whole.add(latencies, kind)
            if earlier is not None and earlier["life"] == said["life"] and earlier.get("latencies"):
                recent.add(latencies, kind)
                recent.add(earlier["latencies"], kind, -1)
        if whole.count:
            found[kind] = {**whole.told, "recent": recent.told if recent.count > 0 else None}
    return found


def octaves(latencies: JsonMapping, kind: str) -> Iterable[tuple[str, int]]:
    """The end of each octave in seconds, and how many requests took no longer; the last is +Inf."""
    counted = _Counted()
    counted.add(latencies, kind)
    for octave in range(MOST_OCTAVES + 1):
        end = octave * counted.per_octave
        yield f"{2.0**octave / 1e6:.9g}", sum(count for number, count in counted.counts.items() if number <= end)
    yield "+Inf", counted.count


class _Counted:
    """Buckets by their numbers."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.per_octave = 4

    def add(self, latencies: JsonMapping, kind: str, sign: int = 1) -> None:
        self.per_octave = int(latencies["per_octave"])
        for number, count in latencies[kind]["counts"]:
            self.counts[number] = self.counts.get(number, 0) + sign * count

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    @property
    def told(self) -> JsonObject:
        return {"count": self.count, "p50_s": self._quantile(50), "p99_s": self._quantile(99)}

    def _quantile(self, percent: int) -> float:
        """The end of the bucket in which the one is that so many are not above."""
        wanted, passed = -(-self.count * percent // 100), 0
        number = 0
        for number in sorted(self.counts):
            passed += self.counts[number]
            if passed >= wanted:
                break
        return float(2.0 ** (min(number, MOST_OCTAVES * self.per_octave) / self.per_octave) / 1e6)

"""What a job's parameter servers have done since somebody looks: rates with their median and 99th percentile, who waits for whom. A decider.

    history = ServerHistory()
    history.add(report, now_s)          a report of `umiak ps status`
    history.data(now_s)                 the newest one, and what the rates have been
    history.waits                       {0: 'barrier "end" waits for trainer 1'}

Servers count, and a rate is what was counted between two looks. So nothing is measured in a server, and nobody who looks costs a job anything.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonObject

RATES = ("pulls_per_s", "pulled_rows_per_s", "pushes_per_s", "pushed_rows_per_s")
MOST_LOOKS = 300
FRESH_S = 15.0
"""Who waited longer ago than that may not wait any more."""


class ServerHistory:
    """What was seen of one job's servers."""

    def __init__(self) -> None:
        self.report: JsonObject | None = None
        self.at_s = 0.0
        self._seen: deque[tuple[float, dict[str, float]]] = deque(maxlen=MOST_LOOKS)

    def add(self, report: JsonObject, now_s: float) -> bool:
        """Whether somebody waits for another one now than before."""
        before = self.waits
        self.report, self.at_s = report, now_s
        totals = {name: total for name in RATES if (total := _total(report, name)) is not None}
        if totals:
            self._seen.append((now_s, totals))
        return self.waits != before

    @property
    def waits(self) -> dict[int, str]:
        """By the ranks of the trainers that wait."""
        trainers = (self.report or {}).get("trainers") or ()
        return {int(each["rank"]): str(each["waits"]) for each in trainers if each["waits"]}

    def waits_at(self, now_s: float) -> dict[int, str]:
        """The same, as long as it can be believed."""
        return self.waits if now_s - self.at_s <= FRESH_S else {}

    def data(self, now_s: float) -> JsonObject:
        """For JSON; nothing if no server was asked yet."""
        if self.report is None:
            return {}
        rates = {}
        for name in RATES:
            values = sorted(totals[name] for _, totals in self._seen if name in totals)
            if values:
                now = self._seen[-1][1].get(name)
                rates[name] = {"now": now, "p50": quantile(values, 0.5), "p99": quantile(values, 0.99)}
        over_s = self._seen[-1][0] - self._seen[0][0] if self._seen else 0.0
        history = {
            name: {"time": [at for at, _ in self._seen], "y": [totals.get(name) for _, totals in self._seen]}
            for name in RATES
            if rates
        }
        return {
            **self.report,
            "age_s": now_s - self.at_s,
            "rates": rates,
            "looks": len(self._seen),
            "over_s": over_s,
            "history": history,
        }


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of numbers in their order: the smallest one that so many of them are not above."""
    at = min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))
    return ordered[at]


def _total(report: JsonObject, name: str) -> float | None:
    """Over all servers that have one; a server that was restarted in between has none."""
    found = [each[name] for each in report["servers"] if each.get("reachable") and each.get(name) is not None]
    return sum(found) if found else None

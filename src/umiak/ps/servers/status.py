"""How a job's servers are, put together from what each says of itself. A decider.

    report(now, before, seconds)      one dictionary for the job: servers, tables, trainers; rates from two looks
    text(report)                      the same as tables for a person

What a server says is `umiak_native.Server.status()`; one that did not answer says why in its place.
"""

from __future__ import annotations

from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.ps.servers import latencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonMapping, JsonObject

RATES = {
    "pulls_per_s": "pulls",
    "pulled_rows_per_s": "pulled_rows",
    "pushes_per_s": "pushes",
    "pushed_rows_per_s": "pushed_rows",
    "dense_pulls_per_s": "dense_pulls",
    "dense_pushes_per_s": "dense_pushes",
}
"""Each rate, and what it is the rate of."""


@value
class Look:
    """One server at one moment: what it said of itself, or why it said nothing."""

    endpoint: str
    said: JsonMapping | None = None
    why: str | None = None


def report(now: Sequence[Look], before: Sequence[Look], seconds: float) -> JsonObject:
    """The whole job. Rates are those between the two looks, ``seconds`` apart."""
    earlier = {look.endpoint: look.said for look in before}
    heard = [look.said for look in now if look.said is not None]
    first: JsonMapping = heard[0] if heard else {}
    return {
        "job": first.get("job"),
        "step": max((each["step"] for each in heard), default=None),
        "step_waits_for": sorted({rank for each in heard for rank in each["step_waits_for"]}),
        "servers": [_server(look, earlier.get(look.endpoint), seconds) for look in now],
        "latencies": latencies.told_of(
            (look.said, earlier.get(look.endpoint)) for look in now if look.said is not None
        ),
        "tables": _tables(heard),
        "trainers": _trainers(heard),
    }


def text(report: JsonMapping) -> str:
    """Tables of servers, embedding and dense tables, and trainers, with what they wait for."""
    servers = report["servers"]
    up = [server for server in servers if server["reachable"]]
    head = f"job {one_line(report['job'] or '')}: {len(up)} of {len(servers)} servers answer, step {report['step']}"
    rows = [["SERVER", "ADDRESS", "UP", "ROWS", "MEMORY", "PULLS/S", "ROWS/S", "PUSHES/S", "ROWS/S", "DENSE/S", "LOG"]]
    rows += [_server_row(server) for server in servers]
    tables = [["TABLE", "KIND", "ROWS", "MEMORY", "LEARNING RATE"]]
    for table in report["tables"]:
        size = table["rows"] if table["kind"] == "sparse" else table["elements"]
        rate = f"{table['learning_rate']:g}"
        tables.append([one_line(table["name"], 60), table["kind"], _count(size), _bytes(table["bytes"]), rate])
    trainers = [["TRAINER", "STATE", "STEP", "WAITS FOR"]]
    for trainer in report["trainers"]:
        waits = one_line(trainer["waits"] or "-", 200)
        trainers.append([str(trainer["rank"]), trainer["state"], str(trainer["step"]), waits])
    parts = [rows, _latency_rows(report["latencies"]), tables, trainers]
    return "\n\n".join([head, *(_aligned(part) for part in parts if part)])


def _server(look: Look, earlier: JsonMapping | None, seconds: float) -> JsonObject:
    said = look.said
    if said is None:
        return {"endpoint": look.endpoint, "reachable": False, "why": look.why}
    tables = said["tables"].values()
    return {
        "endpoint": look.endpoint,
        "reachable": True,
        "server": said["server"],
        "up_s": said["up_s"],
        "step": said["step"],
        "rows": sum(table.get("rows", 0) for table in tables),
        "bytes": sum(table["bytes"] for table in tables),
        "requests": said["requests"],
        **said["traffic"],
        **_rates(said, earlier, seconds),
        "latencies": latencies.told_of([(said, earlier)]),
        "log": said["log"],
    }


def _rates(said: JsonMapping, earlier: JsonMapping | None, seconds: float) -> dict[str, float | None]:
    """None for a server that was not there before, or was another one."""
    if earlier is None or earlier["life"] != said["life"] or seconds <= 0:
        return dict.fromkeys(RATES)
    counts, old = said["traffic"], earlier["traffic"]
    return {name: (counts[of] - old[of]) / seconds for name, of in RATES.items()}


def _tables(heard: Sequence[JsonMapping]) -> list[JsonObject]:
    """Each table, added up over the servers."""
    found: dict[str, JsonObject] = {}
    for said in heard:
        for name, table in said["tables"].items():
            size = "rows" if table["kind"] == "sparse" else "elements"
            start = {"name": name, "kind": table["kind"], size: 0, "bytes": 0, "learning_rate": table["learning_rate"]}
            whole = found.setdefault(name, start)
            whole[size] += table[size]
            whole["bytes"] += table["bytes"]
    return [found[name] for name in sorted(found)]


def _trainers(heard: Sequence[JsonMapping]) -> list[JsonObject]:
    """Each trainer as the first server sees it; what it waits for may be known to another one."""
    if not heard:
        return []
    waits: dict[int, str] = {}
    for said in heard:
        waits.update({each["rank"]: each["waits"] for each in said["trainers"] if each["waits"]})
    return [
        {
            "rank": each["rank"],
            "state": each["state"],
            "connections": each["connections"],
            "step": each["next"],
            "about": each["words"],
            "waits": waits.get(each["rank"]),
        }
        for each in heard[0]["trainers"]
    ]


def _server_row(server: JsonMapping) -> list[str]:
    if not server["reachable"]:
        return ["?", server["endpoint"], "no answer: " + one_line(server["why"] or "", 160)]
    dense = [server["dense_pulls_per_s"], server["dense_pushes_per_s"]]
    return [
        str(server["server"]),
        server["endpoint"],
        _time(server["up_s"]),
        _count(server["rows"]),
        _bytes(server["bytes"]),
        *(_count(server[f"{each}_per_s"]) for each in ("pulls", "pulled_rows", "pushes", "pushed_rows")),
        _count(None if None in dense else sum(dense)),
        _log(server["log"]),
    ]


def _latency_rows(told: JsonMapping) -> list[list[str]]:
    """Of all servers together; nothing if nobody has pulled or pushed."""
    rows = [["LATENCY", "REQUESTS", "P50", "P99", "RECENT", "P50", "P99"]]
    for kind, each in told.items():
        recent = each["recent"]
        last = [_count(recent["count"]), span(recent["p50_s"]), span(recent["p99_s"])] if recent else ["-"] * 3
        name = kind.replace("_", " ")
        rows.append([name, _count(each["count"]), span(each["p50_s"]), span(each["p99_s"]), *last])
    return rows if len(rows) > 1 else []


def span(seconds: float) -> str:
    """Of a request: ``310 us``, ``2.4 ms``, ``1.2 s``."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _log(log: JsonMapping | None) -> str:
    if log is None:
        return "none"
    failure = log["failure"] or log["snapshot_failure"]
    return f"failed: {one_line(failure, 80)}" if failure else _bytes(log["bytes"])


def _count(number: float | None) -> str:
    if number is None:
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= limit:
            return f"{number / (1e3 if unit == 'k' else limit):.1f} {unit}"
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def _bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def _time(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{whole % 60:02}s" if minutes else f"{whole}s"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side; the last cell of a short row may be longer than its column."""
    columns = range(len(rows[0]))
    widths = [max(len(row[at]) for row in rows if at < len(row) - 1 or len(row) == len(rows[0])) for at in columns]
    lines = ["  ".join(cell.ljust(widths[at]) for at, cell in enumerate(row)).rstrip() for row in rows]
    return "\n".join(lines)

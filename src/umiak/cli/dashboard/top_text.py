"""What `umiak top` shows: the runs that go on, and of one of them its sentence, workers and servers. A decider.

screen(rows, total, run, before, width)      lines for a terminal, or whole ones for a pipe

``run`` is what the page of a run gets as JSON, ``before`` the same a moment ago, for what is a rate.
"""

from __future__ import annotations

from umiak.cli.texts.table_layout import rows as table
from umiak.cli.texts.table_layout import wrapped
from umiak.core.shown import one_line
from umiak.dashboard.sentences import span
from umiak.dashboard.trained.curves import metric_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonMapping
    from umiak.dashboard.rows import RunRow

MOST_RUNS = 10
PHASES = ("failed", "silent", "waiting", "starting", "running", "stopped", "done")


def screen(
    rows: Sequence[RunRow],
    total: int,
    run: JsonMapping | None,
    before: JsonMapping | None,
    now_s: float,
    width: int | None = None,
) -> str:
    """Everything, from top to bottom."""
    parts = [f"{_count(len(rows), 'run')} of {total:,}\n" if rows or total else "no runs here yet\n"]
    if rows:
        shown = rows if run is None else rows[:MOST_RUNS]
        parts.append(_runs(shown, now_s, width))
        if len(shown) < len(rows):
            parts.append(f"{len(rows) - len(shown)} more\n")
    if run is not None:
        parts.append(_run(run, before, width))
    return "\n".join(parts)


def _runs(rows: Sequence[RunRow], now_s: float, width: int | None) -> str:
    lines = [["STATE", "RUN", "ID", "PLACE", "AGE", "STEP", "SAMPLES/S", "METRIC", "NODES"]]
    for row in rows:
        step = "" if row.step is None else f"{(row.epoch or 0) + 1}/{row.step:,}"
        metric = "" if row.metric_value is None else f"{metric_name(row.metric)} {row.metric_value:.4g}"
        nodes = "" if row.nodes_expected is None else f"{row.nodes_up or 0}/{row.nodes_expected}"
        age = span((row.ended_s or now_s) - row.started_s) if row.started_s else ""
        speed = "" if row.samples_per_s is None else f"{row.samples_per_s:,.0f}"
        name, place = one_line(row.name, 60), one_line(row.place, 30)
        lines.append([row.state, name, row.id, place, age, step, speed, metric, nodes])
    return table(lines, width, leave_out=("PLACE", "NODES", "ID", "AGE", "STEP"))


def _run(run: JsonMapping, before: JsonMapping | None, width: int | None) -> str:
    texts = [f"{one_line(run['row']['name'], 100)}: {one_line(run['sentence'], 1000)}"]
    texts += [f"  {one_line(run['hint'], 500)}"] if run["hint"] else []
    shares = run.get("shares") or {}
    if shares:
        texts.append("time: " + ", ".join(f"{one_line(name, 30)} {share:.0%}" for name, share in shares.items()))
    texts += _servers(run.get("servers"))
    lines = [part for text in texts for part in (wrapped(text, width) if width else [text])]
    workers = [each for group in run["workers"] for each in group["workers"]]
    if not workers:
        return "".join(f"{line}\n" for line in lines)
    counts = [(phase, sum(each["phase"] == phase for each in workers)) for phase in PHASES]
    lines.append("workers: " + ", ".join(f"{count} {phase}" for phase, count in counts if count))
    return "".join(f"{line}\n" for line in lines) + "\n" + _workers(workers, run, before, width)


def _workers(workers: Sequence[JsonMapping], run: JsonMapping, before: JsonMapping | None, width: int | None) -> str:
    earlier = {}
    if before is not None:
        seen = [each for group in before["workers"] for each in group["workers"] if each["process"]]
        earlier = {each["process"]["pid"]: each["process"]["cpu_s"] for each in seen}
        passed_s = run["now_s"] - before["now_s"]
    lines = [["WORKER", "PHASE", "UP", "WROTE", "CPU", "MEMORY", "HOST", "WAITS FOR"]]
    for each in sorted(workers, key=lambda worker: PHASES.index(worker["phase"]) if worker["phase"] in PHASES else 9):
        process = each["process"]
        cpu = memory = ""
        if process:
            memory = f"{process['memory_bytes'] / (1 << 20):,.0f} MiB"
            if process["pid"] in earlier and passed_s > 0:
                cpu = f"{max(0.0, process['cpu_s'] - earlier[process['pid']]) / passed_s:.0%}"
        wrote = f"{span(run['now_s'] - each['wrote_s'])} ago" if each["wrote_s"] else ""
        up = span(run["now_s"] - each["since_s"]) if each["state"] == "running" else ""
        about = one_line(each["waits"] or each["reason"], 200)
        name = f"{each['role']} {each['rank']}"
        lines.append([name, each["phase"], up, wrote, cpu, memory, one_line(each["host"], 60), about])
    return table(lines, width, leave_out=("HOST", "UP", "WROTE", "MEMORY"), below="WAITS FOR")


def _servers(servers: JsonMapping | None) -> list[str]:
    if not servers or not servers.get("servers"):
        return []
    up = sum(bool(each["reachable"]) for each in servers["servers"])
    parts = [f"{up} of {len(servers['servers'])} answer"]
    parts.append(f"{sum(each.get('rows') or 0 for each in servers['servers']):,} rows")
    for name, word in (("pulled_rows_per_s", "pulled"), ("pushed_rows_per_s", "pushed")):
        rate = (servers.get("rates") or {}).get(name)
        if rate and rate["now"] is not None:
            parts.append(f"{rate['now']:,.0f} rows/s {word} (p50 {rate['p50']:,.0f}, p99 {rate['p99']:,.0f})")
    for name, word in (("pulls", "pull"), ("pushes", "push")):
        took = (servers.get("latencies") or {}).get(name)
        if took:
            now = took["recent"] or took
            parts.append(f"a {word} takes {_took(now['p50_s'])} (p99 {_took(now['p99_s'])})")
    return ["servers: " + ", ".join(parts)]


def _took(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"

"""How a server is, in the text format of Prometheus. A decider.

    text(json.loads(server.status()))      lines such as  umiak_ps_rows{server="0",table="ads"} 12

Names and meanings are in the table below, from which the reference is checked.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

METRICS = {
    "umiak_ps_up_seconds": ("gauge", "Seconds since the server began."),
    "umiak_ps_step": ("gauge", "Steps that are applied, in a sync job."),
    "umiak_ps_requests_total": ("counter", "Requests of all kinds."),
    "umiak_ps_pull_requests_total": ("counter", "Requests to pull rows."),
    "umiak_ps_pulled_rows_total": ("counter", "Rows in them."),
    "umiak_ps_push_requests_total": ("counter", "Requests to push rows."),
    "umiak_ps_pushed_rows_total": ("counter", "Rows in them."),
    "umiak_ps_dense_pull_requests_total": ("counter", "Requests to pull dense parameters."),
    "umiak_ps_dense_push_requests_total": ("counter", "Requests to push dense gradients."),
    "umiak_ps_connections": ("gauge", "Connections that are open."),
    "umiak_ps_rows": ("gauge", "Rows of an embedding table on this server."),
    "umiak_ps_elements": ("gauge", "Numbers of a dense table on this server."),
    "umiak_ps_table_bytes": ("gauge", "Memory of a table on this server."),
    "umiak_ps_learning_rate": ("gauge", "Learning rate of a table."),
    "umiak_ps_trainers": ("gauge", "Trainers in a state: expected, here, lost or done."),
    "umiak_ps_trainers_waiting": ("gauge", "Trainers that have waited for others for a second or more."),
    "umiak_ps_log_bytes": ("gauge", "Size of the log; absent without one."),
    "umiak_ps_log_failed": ("gauge", "1 if the log can't be written any more; absent without one."),
    "umiak_ps_snapshots_total": ("counter", "Snapshots that took the place of an older log; absent without one."),
}
"""Each metric: its kind and its meaning."""

_COUNTS = {
    "umiak_ps_pull_requests_total": "pulls",
    "umiak_ps_pulled_rows_total": "pulled_rows",
    "umiak_ps_push_requests_total": "pushes",
    "umiak_ps_pushed_rows_total": "pushed_rows",
    "umiak_ps_dense_pull_requests_total": "dense_pulls",
    "umiak_ps_dense_push_requests_total": "dense_pushes",
}
_STATES = ("expected", "here", "lost", "done")


def text(status: Mapping[str, Any]) -> str:
    """Everything that `Server.status` says, as a page for a scraper."""
    samples: dict[str, list[str]] = {name: [] for name in METRICS}
    base = {"job": status["job"], "server": str(status["server"])}
    for name, number, labels in _samples(status):
        pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in {**base, **labels}.items())
        samples[name].append(
            f"{name}{{{pairs}}} {number:.9g}" if isinstance(number, float) else f"{name}{{{pairs}}} {number}"
        )
    lines = []
    for name, (kind, meaning) in METRICS.items():
        if samples[name]:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *samples[name]]
    return "\n".join(lines) + "\n"


def _samples(status: Mapping[str, Any]) -> Iterable[tuple[str, float, dict[str, str]]]:
    yield "umiak_ps_up_seconds", float(status["up_s"]), {}
    yield "umiak_ps_step", status["step"], {}
    yield "umiak_ps_requests_total", status["requests"], {}
    for name, count in _COUNTS.items():
        yield name, status["traffic"][count], {}
    yield "umiak_ps_connections", status.get("connections", 0), {}
    for table, about in sorted(status["tables"].items()):
        labels = {"table": table}
        if about["kind"] == "sparse":
            yield "umiak_ps_rows", about["rows"], labels
        else:
            yield "umiak_ps_elements", about["elements"], labels
        yield "umiak_ps_table_bytes", about["bytes"], labels
        yield "umiak_ps_learning_rate", float(about["learning_rate"]), labels
    states = [trainer["state"] for trainer in status["trainers"]]
    for state in _STATES:
        yield "umiak_ps_trainers", states.count(state), {"state": state}
    yield "umiak_ps_trainers_waiting", sum(trainer["waits"] is not None for trainer in status["trainers"]), {}
    log = status["log"]
    if log is not None:
        yield "umiak_ps_log_bytes", log["bytes"], {}
        yield "umiak_ps_log_failed", int(log["failure"] is not None), {}
        yield "umiak_ps_snapshots_total", log["snapshots"], {}


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

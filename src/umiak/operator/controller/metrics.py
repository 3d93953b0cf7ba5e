"""What the operator counts, as Prometheus reads it. A decider.

By hand: prometheus_client takes a quarter of a second to import,
and gauges that are asked for would be a class here as well.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Labels = tuple[tuple[str, str], ...]

BUCKETS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)

COUNTERS = {
    "umiak_operator_reconciles_total": "Looks at a job, by result",
    "umiak_operator_actions_total": "What was done, by verb, kind and result",
    "umiak_operator_api_requests_total": "Requests to the API server, by verb and status; 0 is no answer",
    "umiak_operator_status_writes_total": "Statuses written, by result",
    "umiak_operator_watch_restarts_total": "Watches begun again, by path and cause",
    "umiak_operator_jobs_finished_total": "Jobs that ended, by namespace and phase",
    "umiak_operator_job_restarts_total": "Restarts that count against a job's budget, by namespace",
}
HISTOGRAMS = {
    "umiak_operator_reconcile_seconds": "From taking a job from the queue to its status",
    "umiak_operator_decide_seconds": "Deciding alone, which holds up everything else",
    "umiak_operator_api_request_seconds": "Requests to the API server until their answer begins",
}
GAUGES = {
    "umiak_operator_is_leader": "1 if this operator acts",
    "umiak_operator_jobs": "Jobs by phase",
    "umiak_operator_pods": "Pods of jobs",
    "umiak_operator_queue_length": "Jobs that wait to be looked at",
    "umiak_operator_queue_oldest_seconds": "How long the first of them has waited",
    "umiak_operator_requests_waiting": "Requests that wait for their turn",
    "process_resident_memory_bytes": "Memory",
    "process_cpu_seconds_total": "Processor time",
    "process_start_time_seconds": "When this process was started",
}


class OperatorMetrics:
    """Counters and histograms; gauges are asked for when somebody reads them."""

    def __init__(self, gauges: Callable[[], Iterable[tuple[str, Labels, float]]] = lambda: ()) -> None:
        self.gauges = gauges
        self._counts: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[str, tuple[list[int], list[float]]] = {}

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        key = (name, tuple(sorted(labels.items())))
        self._counts[key] = self._counts.get(key, 0.0) + by

    def observe(self, name: str, seconds: float) -> None:
        buckets, total = self._histograms.setdefault(name, ([0] * (len(BUCKETS_S) + 1), [0.0]))
        place = next((number for number, top in enumerate(BUCKETS_S) if seconds <= top), len(BUCKETS_S))
        buckets[place] += 1
        total[0] += seconds

    def text(self) -> str:
        """The whole page."""
        lines: list[str] = []
        for name, meaning in COUNTERS.items():
            rows = sorted(item for item in self._counts.items() if item[0][0] == name)
            lines += _head(name, meaning, "counter") + [f"{name}{_labels(key[1])} {count:.15g}" for key, count in rows]
        for name, meaning in HISTOGRAMS.items():
            lines += _head(name, meaning, "histogram") + self._histogram_lines(name)
        samples: dict[str, list[str]] = {}
        for name, labels, number in self.gauges():
            samples.setdefault(name, []).append(f"{name}{_labels(labels)} {number:.15g}")
        for name, meaning in GAUGES.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += _head(name, meaning, kind) + sorted(samples.get(name, ()))
        return "\n".join(lines) + "\n"

    def _histogram_lines(self, name: str) -> list[str]:
        buckets, total = self._histograms.get(name, ([0] * (len(BUCKETS_S) + 1), [0.0]))
        lines, so_far = [], 0
        for top, count in zip((*BUCKETS_S, None), buckets, strict=True):
            so_far += count
            lines.append(f'{name}_bucket{{le="{"+Inf" if top is None else f"{top:g}"}"}} {so_far}')
        return [*lines, f"{name}_sum {total[0]:.6f}", f"{name}_count {so_far}"]


def _head(name: str, meaning: str, kind: str) -> list[str]:
    return [f"# HELP {name} {meaning}.", f"# TYPE {name} {kind}"]


def _labels(labels: Labels) -> str:
    rows = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
    return f"{{{rows}}}" if rows else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def names() -> Mapping[str, str]:
    """All metrics with their meaning, for the reference page."""
    return {**COUNTERS, **HISTOGRAMS, **GAUGES}

"""What a server has done, in the text format of Prometheus. A decider."""

from __future__ import annotations

from bisect import bisect_left

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class ServingCounts:
    """Counters, and how long requests took."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        """By status."""
        self.rows = 0
        self.batches = 0
        self.swaps = 0
        self.failed_loads = 0
        self._took = [0] * (len(BUCKETS_S) + 1)
        self._seconds = 0.0

    def answered(self, status: int, seconds: float) -> None:
        """A request for inference is over."""
        self.requests[status] = self.requests.get(status, 0) + 1
        self._took[bisect_left(BUCKETS_S, seconds)] += 1
        self._seconds += seconds

    def text(self, *, waiting: int, version: str) -> str:
        """All of it."""
        lines = ["# TYPE umiak_serve_requests_total counter"]
        lines += [
            f'umiak_serve_requests_total{{status="{status}"}} {count}'
            for status, count in sorted(self.requests.items())
        ]
        for name, number in (
            ("rows_total", self.rows),
            ("batches_total", self.batches),
            ("model_swaps_total", self.swaps),
            ("model_load_failures_total", self.failed_loads),
        ):
            lines += [f"# TYPE umiak_serve_{name} counter", f"umiak_serve_{name} {number}"]
        lines += ["# TYPE umiak_serve_waiting_rows gauge", f"umiak_serve_waiting_rows {waiting}"]
        lines += ["# TYPE umiak_serve_model gauge", f'umiak_serve_model{{version="{version}"}} 1']
        lines.append("# TYPE umiak_serve_request_seconds histogram")
        total = 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._took, strict=True):
            total += count
            lines.append(f'umiak_serve_request_seconds_bucket{{le="{bound}"}} {total}')
        lines += [f"umiak_serve_request_seconds_sum {self._seconds:.6f}", f"umiak_serve_request_seconds_count {total}"]
        return "\n".join(lines) + "\n"

"""`fluid.profiler`: how long the operations of programs take, as a table and as a file for trace viewers. A program.

While it measures, each operation is timed as it is replayed; on a GPU the device is waited for after each, so that the time is its own.
The backward pass is one operation.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import paddle

from umiak.adapters import private_files
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STATES = ("CPU", "GPU", "All")
KEYS = ("calls", "total", "max", "min", "ave")
MODES = ("csv", "kvp")
TRACERS = ("Default", "OpDetail", "AllOpDetail")
PATH = "/tmp/profile"  # noqa: S108 - 1.8's default; the file replaces what is there, and is written through no link
MOST_SPANS = 1_000_000
"""So many calls are kept one by one; of more, the sums only."""


class CallTimes:
    """All calls of one kind of operation."""

    __slots__ = ("calls", "max_s", "min_s", "name", "total_s")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls, self.total_s, self.min_s, self.max_s = 0, 0.0, float("inf"), 0.0

    def add(self, seconds: float) -> None:
        """One more call."""
        self.calls += 1
        self.total_s += seconds
        self.min_s, self.max_s = min(self.min_s, seconds), max(self.max_s, seconds)


class Measurement:
    """What was measured since the start."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.times: dict[str, CallTimes] = {}
        self.spans: list[tuple[str, str, float, float]] = []
        """Name, the line of the user's file, begin and seconds."""
        self.waits = state != "CPU" and paddle.is_compiled_with_cuda()
        self._lock = threading.Lock()

    def now(self) -> float:
        """A moment, when the device has nothing left to do."""
        if self.waits:
            paddle.device.synchronize()
        return time.perf_counter()

    def add(self, name: str, site: str, begin: float) -> None:
        """One operation that has ended."""
        seconds = self.now() - begin
        with self._lock:
            self.times.setdefault(name, CallTimes(name)).add(seconds)
            if len(self.spans) < MOST_SPANS:
                self.spans.append((name, site, begin, seconds))

    def clear(self) -> None:
        """Forget all of it."""
        with self._lock:
            self.times, self.spans = {}, []


class _Profiler:
    def __init__(self) -> None:
        self.running: Measurement | None = None


_profiler = _Profiler()


def current() -> Measurement | None:
    """What operations are added to; None if nobody measures."""
    return _profiler.running


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Measure from here on; nothing happens if that is so already."""
    if state not in STATES:
        raise bad(
            "UM-FLUID-001", f"profiler: expected a state of {', '.join(STATES)}, got {state!r}", where=user_line()
        )
    if tracer_option not in TRACERS:
        what = f"profiler: expected a tracer_option of {', '.join(TRACERS)}, got {tracer_option!r}"
        raise bad("UM-FLUID-001", what, where=user_line())
    if _profiler.running is None:
        _profiler.running = Measurement(state)


def reset_profiler() -> None:
    """Forget what was measured."""
    if _profiler.running is not None:
        _profiler.running.clear()


def stop_profiler(sorted_key: str | None = None, profile_path: str | None = PATH) -> None:
    """Stop, print the table, and write the calls to a file."""
    _check_key(sorted_key)
    measured, _profiler.running = _profiler.running, None
    if measured is None:
        return
    print(table(measured, sorted_key), flush=True)
    if profile_path:
        _write(profile_path, trace(measured))


@contextmanager
def profiler(state: str, sorted_key: str | None = None, profile_path: str | None = PATH, tracer_option: str = "Default") -> Iterator[None]:  # fmt: skip
    """Measure the block."""
    _check_key(sorted_key)
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


@contextmanager
def cuda_profiler(output_file: str, output_mode: str | None = None, config: Sequence[str] | None = None) -> Iterator[None]:  # fmt: skip
    """Measure the block's operations and write their times to a file, as rows (csv) or as pairs (kvp). 1.8 had nvprof measure kernels."""
    mode = output_mode or "csv"
    if mode not in MODES:
        what = f"cuda_profiler: expected an output_mode of {', '.join(MODES)}, got {output_mode!r}"
        raise bad("UM-FLUID-001", what, where=user_line())
    ignored = "" if config is None else "; config has no effect"
    warnings.warn(
        f"cuda_profiler: nvprof is gone, so operations of the program are timed, not kernels{ignored}", stacklevel=3
    )
    outer, _profiler.running = _profiler.running, Measurement("GPU")
    try:
        yield
    finally:
        measured, _profiler.running = _profiler.running, outer
        _write(output_file, _rows(measured, mode))


def _rows(measured: Measurement, mode: str) -> str:
    rows = [
        {"name": each.name, "calls": each.calls, "total_us": f"{1e6 * each.total_s:.3f}", "min_us": f"{1e6 * each.min_s:.3f}", "max_us": f"{1e6 * each.max_s:.3f}"}
        for each in measured.times.values()
    ]  # fmt: skip
    if mode == "kvp":
        return "".join(" ".join(f"{key}={text}" for key, text in row.items()) + "\n" for row in rows)
    head = "name,calls,total_us,min_us,max_us\n"
    return head + "".join(",".join(str(text) for text in row.values()) + "\n" for row in rows)


def table(measured: Measurement, sorted_key: str | None) -> str:
    """The operations with their times in ms. Without a key, in the order in which each ended first."""
    rows = list(measured.times.values())
    keys = {
        "calls": lambda each: each.calls,
        "total": lambda each: each.total_s,
        "max": lambda each: each.max_s,
        "min": lambda each: each.min_s,
        "ave": lambda each: each.total_s / each.calls,
    }
    if sorted_key is not None:
        rows.sort(key=keys[sorted_key], reverse=True)
    whole_s = sum(each.total_s for each in rows) or 1.0
    width = max([len("Event"), *(len(each.name) for each in rows)])
    order = "first end" if sorted_key is None else sorted_key
    lines = [
        f"Operations by {order}, times in ms ({measured.state})",
        f"{'Event':<{width}} {'Calls':>9} {'Total':>11} {'Min':>9} {'Max':>9} {'Ave':>9} {'Ratio':>7}",
    ]
    for each in rows:
        times = f"{1e3 * each.total_s:11.3f} {1e3 * each.min_s:9.4f} {1e3 * each.max_s:9.4f}"
        average, ratio = 1e3 * each.total_s / each.calls, each.total_s / whole_s
        lines.append(f"{each.name:<{width}} {each.calls:9d} {times} {average:9.4f} {ratio:7.4f}")
    return "\n".join(lines)


def trace(measured: Measurement) -> str:
    """The calls one by one, as trace viewers read them: chrome://tracing, Perfetto."""
    first = min((span[2] for span in measured.spans), default=0.0)
    events = [
        {
            "name": name,
            "ph": "X",
            "pid": 0,
            "tid": 0,
            "ts": round(1e6 * (begin - first), 3),
            "dur": round(1e6 * seconds, 3),
            "args": {"line": site},
        }
        for name, site, begin, seconds in measured.spans
    ]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def _write(path: str, text: str) -> None:
    try:
        private_files.write(path, text)
    except OSError as error:
        warnings.warn(f"profiler: {path} is not written: {error.strerror}", stacklevel=3)


def _check_key(sorted_key: str | None) -> None:
    if sorted_key not in (None, *KEYS):
        what = f"profiler: expected a sorted_key of None, {', '.join(KEYS)}, got {sorted_key!r}"
        raise bad("UM-FLUID-001", what, where=user_line())

"""Between a launcher and the workers of its check: what it sends them to do, and what they bring back.
An adapter: values and a file.

The task travels as one word of JSON on the command line and holds no secret. The result comes back through a file
without a name (memfd) that the workers inherit: nothing is left on disk, a full disk does no harm, and launchers that
share a log directory do not meet in it. Workers append lines to it; the last *final* one counts, or else the last one.
"""

from __future__ import annotations

import json
import os

from umiak.core.decode import decode, encode
from umiak.core.problem import Problem
from umiak.core.value import value

_READ_BYTES = 1024 * 1024


@value
class CheckTask:
    """What the launcher knows and its workers can't."""

    result_fd: int
    first: str
    """The key of this node's first worker, such as ``trainer.0``: the one that speaks for the node."""
    patience_s: float
    """How long the collector waits for reports."""
    link_port: int = 0
    """Where the launcher listens, if the job may need that later; otherwise 0."""
    token: bool = False
    device_kind: str = ""
    device_count: int = 0
    program: str = ""
    """The script or module whose contents must be the same on all nodes; empty: none."""
    is_module: bool = False
    log_dir: str = "."
    as_json: bool = False


@value
class CheckResult:
    """How the check ended, as this node knows it."""

    final: bool
    """Said by the collector. What is not final stands only if the collector never answers."""
    problem: Problem | None = None
    """What to say on standard error; None: all is well."""
    note: str = ""
    """What else to say there."""
    shown: str = ""
    """What goes to standard output."""


def task_argument(task: CheckTask) -> str:
    """The task as one word of a command line."""
    return json.dumps(encode(task), separators=(",", ":"))


def read_task(word: str) -> CheckTask:
    """The task that a worker was given."""
    return decode(CheckTask, json.loads(word))


def open_results() -> int:
    """A file without a name that worker processes inherit."""
    fd = os.memfd_create("umiak-check")
    os.set_inheritable(fd, True)
    return fd


def bring(fd: int, result: CheckResult) -> None:
    """Append a result; the file's position is shared by all who inherited it, so lines never overwrite one another."""
    data = json.dumps(encode(result)).encode() + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def read_result(fd: int) -> CheckResult | None:
    """The result that counts; None if no worker brought any."""
    pieces = []
    at = 0
    while piece := os.pread(fd, _READ_BYTES, at):
        pieces.append(piece)
        at += len(piece)
    # A worker that was killed while it wrote may have left half a line at the end.
    lines = b"".join(pieces).split(b"\n")[:-1]
    results = [decode(CheckResult, json.loads(line)) for line in lines]
    final = [result for result in results if result.final]
    return (final or results)[-1] if results else None

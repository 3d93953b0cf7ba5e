"""Runs a program in a process of its own, for a limited time, and ends it and what it started. An adapter.

Several threads do so at once; `stop_all` ends everything that still runs, when the doctor itself is interrupted.
What a trial has to say is one line of JSON, the last one that it prints.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.doctor.facts import TrialFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

LAST_LINES = 8
LONGEST_LINE = 300
STOP_S = 3.0

_running: set[subprocess.Popen[str]] = set()
_lock = threading.Lock()


@value
class Ran:
    """A program that has ended."""

    facts: TrialFacts
    out: str
    err: str


def run(argv: Sequence[str], *, environ: Mapping[str, str], directory: str, limit_s: float) -> Ran:
    """Run it. OSError if it can't be started."""
    begun = time.monotonic()
    process = subprocess.Popen(
        list(argv),
        env=dict(environ),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with _lock:
        _running.add(process)
    status: int | None
    try:
        out, err = process.communicate(timeout=limit_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        out, err = _stop(process)
        status = None
    finally:
        with _lock:
            _running.discard(process)
    lines = [one_line(line, LONGEST_LINE) for line in err.splitlines() if line.strip()]
    took_s = round(time.monotonic() - begun, 3)
    facts = TrialFacts(status=status, took_s=took_s, limit_s=limit_s, last_lines=tuple(lines[-LAST_LINES:]))
    return Ran(facts=facts, out=out, err=err)


def stop_all() -> None:
    """End everything that still runs."""
    with _lock:
        left = tuple(_running)
    for process in left:
        _signal(process, signal.SIGKILL)


def _stop(process: subprocess.Popen[str]) -> tuple[str, str]:
    """SIGTERM first: a launcher ends its workers then."""
    _signal(process, signal.SIGTERM)
    try:
        return process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
    try:
        return process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:  # something else holds its output open
        return "", ""


def _signal(process: subprocess.Popen[str], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def answer_of(output: str) -> Any:
    """The answer in an output; ``None``: there is none. A framework may have printed other things before it."""
    for line in reversed(output.splitlines()):
        if line.startswith(("{", "[")):
            try:
                return json.loads(line)
            except ValueError:
                continue
    return None

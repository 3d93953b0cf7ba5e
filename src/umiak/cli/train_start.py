"""How `umiak train` starts workers on this node: by the launcher, with the same command for each. An adapter.

    flags(run, parsed)                  the launcher's
    worker(run, parsed)                 the words of every worker
    launched(run, parsed, ...)          runs it; how it ended

Each worker is `umiak train` again, and finds out from its environment which trainer or server it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal

from umiak.launch import start
from umiak.launch.command_line import reading
from umiak.train.config.values import FleetMode
from umiak.train.plan.plan import Ended
from umiak.train.reports.rundir import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.train.plan.plan import Run

MODULE = "umiak.cli.main"
STOPPED = (130, 143)
"""What the launcher ends with when it was asked to stop."""


QUIET = {"GLOG_minloglevel": "2"}
"""Keeps what Paddle's core has to say, short of errors, out of a run's talk, where nobody has said otherwise."""


def launched(run: Run, parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> Ended:
    """Start the workers of a run and wait for them."""
    directory = RunDirectory(parsed.text("run_dir"), run.name)
    with contextlib.suppress(OSError):
        directory.forget_outcome()
    heeded = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    environ = {**QUIET, **environ}
    request = reading.of_values(flags(run, parsed), environ, worker(run, parsed, _columns(printer)), is_module=True)
    status = start.launch(request, environ)
    signal.pthread_sigmask(signal.SIG_SETMASK, heeded)
    if status not in STOPPED:
        return Ended(status=status)
    number = status - 128
    outcome = directory.outcome()
    if outcome is None:
        return Ended(status=status, stopped_by=number)
    if not outcome.get("stopped"):
        printer.talk(f"runner {run.name}: received {_name(number)} after training was complete")
        return Ended(stopped_by=number)
    if outcome.get("resumable"):
        # The launcher's last line is about the signal: without this one it reads as if something were lost.
        printer.talk(f"runner {run.name}: stopped by {_name(number)}, nothing is lost{_where(outcome)}")
    return Ended(status=status, stopped_by=number)


def flags(run: Run, parsed: Parsed) -> dict[str, object]:
    """The launcher's."""
    group = run.group
    # The trainer speaks for itself; of the launcher only what goes wrong is told.
    values: dict[str, object] = {"log_dir": RunDirectory(parsed.text("run_dir"), run.name).logs, "log_level": "WARNING"}
    if parsed.text("topology"):
        values["topology"] = parsed.text("topology")
    if group.fleet_mode is FleetMode.PS:
        return {**values, "server_num": group.servers_here, "trainer_num": group.trainers_here or 0}
    if run.runner.device_ids:
        return {**values, "devices": run.runner.device_ids}
    return {**values, "nproc_per_node": group.trainers_here} if group.trainers_here else values


def worker(run: Run, parsed: Parsed, columns: int | None = None) -> list[str]:
    """The module of every worker, and its words; ``columns`` of the terminal that shows it, if it is one."""
    words = [MODULE, "train", "-m", parsed.text("model"), "--run_dir", parsed.text("run_dir")]
    for said in parsed.texts.get("override", ()):
        if not said.startswith("mode="):
            words += ["-o", said]
    words += ["-o", f"mode={json.dumps([run.name])}"]
    if columns is not None:
        words += ["--live", str(columns)]
    for name in ("record", "steps"):
        if parsed.said(name):
            words += [f"--{name}", parsed.text(name)]
    for name in ("resume", "json", "quiet"):
        if parsed.truth(name):
            words.append(f"--{name}")
    return words


def _name(number: int) -> str:
    return signal.Signals(number).name


def _where(told: dict[str, object] | None) -> str:
    saved = (told or {}).get("saved")
    return f": resumable from {saved}, `--resume` continues from there" if saved else ""


def _columns(printer: Printer) -> int | None:
    """How wide a worker's live line may be here, behind the launcher's tag."""
    try:
        return max(20, os.get_terminal_size(printer.err.fileno()).columns - len("[trainer 0] ") - 1)
    except (OSError, ValueError):
        return None  # no terminal

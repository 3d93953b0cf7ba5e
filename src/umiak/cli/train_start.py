"""How `umiak train` starts workers on this node: as `umiak launch` with the same command for each. An adapter.

    command(run, parsed)                the words of the launcher, and of every worker behind them
    launched(run, plan, parsed, ...)    runs it; how it ended

Each worker is `umiak train` again, and finds out from its environment which trainer or server it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal

from umiak.train.config.values import FleetMode
from umiak.train.plan.plan import Ended
from umiak.train.reports.rundir import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.train.plan.plan import Plan, Run

MODULE = "umiak.cli.main"
STOPPED = (130, 143)
"""What the launcher ends with when it was asked to stop."""


QUIET = {"GLOG_minloglevel": "2"}
"""Keeps what Paddle's core has to say, short of errors, out of a run's talk, where nobody has said otherwise."""


def launched(run: Run, plan: Plan, parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> Ended:
    """Start the workers of a run and wait for them."""
    from umiak.cli import launch

    del plan
    directory = RunDirectory(parsed.text("run_dir"), run.name)
    with contextlib.suppress(OSError):
        directory.forget_outcome()
    waiting, heeded = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    status = launch.main(command(run, parsed, _columns(printer)), {**QUIET, **environ}, printer)
    if os.getpid() != waiting:
        raise SystemExit(status)  # the half of the launcher that did the work; what comes next is done by the other one
    signal.pthread_sigmask(signal.SIG_SETMASK, heeded)
    if status not in STOPPED:
        return Ended(status=status)
    number = status - 128
    told = directory.outcome()
    if told is None:
        return Ended(status=status, stopped_by=number)
    if not told.get("stopped"):
        printer.talk(f"runner {run.name}: received {_name(number)} after training was complete")
        return Ended(stopped_by=number)
    if told.get("resumable"):
        # The launcher's last line is about the signal: without this one it reads as if something were lost.
        printer.talk(f"runner {run.name}: stopped by {_name(number)}, nothing is lost{_where(told)}")
    return Ended(status=status, stopped_by=number)


def command(run: Run, parsed: Parsed, columns: int | None = None) -> list[str]:
    """The words after `umiak launch`; ``columns`` of the terminal that shows it, if it is one."""
    return [*_launcher(run, parsed), "-m", MODULE, "train", *_worker(run, parsed, columns)]


def _launcher(run: Run, parsed: Parsed) -> list[str]:
    group = run.group
    # The trainer speaks for itself; of the launcher only what goes wrong is told.
    words = ["--log_dir", RunDirectory(parsed.text("run_dir"), run.name).logs, "--log_level", "WARNING"]
    if parsed.text("topology"):
        words += ["--topology", parsed.text("topology")]
    if group.fleet_mode is FleetMode.PS:
        return [*words, "--server_num", str(group.servers_here), "--trainer_num", str(group.trainers_here or 0)]
    if run.runner.device_ids:
        return [*words, "--devices", ",".join(map(str, run.runner.device_ids))]
    return [*words, "--nproc_per_node", str(group.trainers_here)] if group.trainers_here else words


def _worker(run: Run, parsed: Parsed, columns: int | None) -> list[str]:
    words = ["-m", parsed.text("model"), "--run_dir", parsed.text("run_dir")]
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

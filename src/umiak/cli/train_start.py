"""How `umiak train` starts workers on this node: as `umiak launch` with the same command for each. An adapter.

    command(act, parsed)                the words of the launcher, and of every worker behind them
    launched(act, plan, parsed, ...)    runs it; the exit status

Each worker is `umiak train` again, and finds out from its environment which trainer or server it is.
"""

from __future__ import annotations

import json
import os

from umiak.core.problem import Exit
from umiak.train.config import FleetMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.cli.output import Printer
    from umiak.compat.flags import Parsed
    from umiak.train.plan import Act, Plan

MODULE = "umiak.cli.main"
STOPPED = (130, 143)
"""What the launcher ends with when it was asked to stop."""


def launched(act: Act, plan: Plan, parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> int:
    """Start the workers of an act and wait for them."""
    from umiak.cli import launch

    del plan
    _forget(outcome_file(parsed.text("run_dir"), act.name))
    status = launch.main(command(act, parsed, _columns(printer)), environ, printer)
    if status in STOPPED and _is_resumable(outcome_file(parsed.text("run_dir"), act.name)):
        return Exit.DONE
    return status


def command(act: Act, parsed: Parsed, columns: int | None = None) -> list[str]:
    """The words after `umiak launch`; ``columns`` of the terminal that shows it, if it is one."""
    return [*_launcher(act, parsed), "-m", MODULE, "train", *_worker(act, parsed, columns)]


def outcome_file(run_dir: str, runner: str) -> str:
    """Where the first trainer leaves how it ended."""
    return os.path.join(run_dir, runner, "outcome.json")


def _launcher(act: Act, parsed: Parsed) -> list[str]:
    crew = act.crew
    # The trainer speaks for itself; of the launcher only what goes wrong is told.
    words = ["--log_dir", os.path.join(parsed.text("run_dir"), act.name, "log"), "--log_level", "WARNING"]
    if parsed.text("topology"):
        words += ["--topology", parsed.text("topology")]
    if crew.fleet_mode is FleetMode.PS:
        return [*words, "--server_num", str(crew.servers_here), "--trainer_num", str(crew.trainers_here or 0)]
    if act.device_ids:
        return [*words, "--devices", ",".join(map(str, act.device_ids))]
    return [*words, "--nproc_per_node", str(crew.trainers_here)] if crew.trainers_here else words


def _worker(act: Act, parsed: Parsed, columns: int | None) -> list[str]:
    words = ["-m", parsed.text("model"), "--run_dir", parsed.text("run_dir")]
    for said in parsed.texts.get("override", ()):
        if not said.startswith("mode="):
            words += ["-o", said]
    words += ["-o", f"mode={json.dumps([act.name])}"]
    if columns is not None:
        words += ["--live", str(columns)]
    for name in ("resume", "json"):
        if parsed.truth(name):
            words.append(f"--{name}")
    return words


def _columns(printer: Printer) -> int | None:
    """How wide a worker's live line may be here, behind the launcher's tag."""
    try:
        return max(40, os.get_terminal_size(printer.err.fileno()).columns - len("[trainer 0] ") - 1)
    except (OSError, ValueError):
        return None  # no terminal


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _is_resumable(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return bool(json.load(file).get("resumable"))
    except (OSError, ValueError):
        return False

"""The directory of one runner below ``--run_dir``: what lies where, and how it ended, written and read back. An adapter.

    run = RunDirectory("run", "alone")
    run.metrics, run.plot, run.logs       paths
    run.write_config({...})               by the first trainer
    run.write_outcome({...})              by the first trainer
    run.outcome()                         by the process that started it; None if it was not told

The launcher knows it as its log directory alone; what it keeps there is in `umiak.launch.reports.logfiles`.
"""

from __future__ import annotations

import json
import os

from umiak.core.problem import UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from umiak.core.json_types import JsonMapping, JsonObject


class RunDirectory:
    """Names, and what two processes tell each other in it."""

    def __init__(self, run_dir: str, runner: str) -> None:
        self.path = os.path.join(run_dir, runner)
        self.logs = os.path.join(self.path, "log")
        self.metrics = os.path.join(self.path, "metrics.jsonl")
        self.plot = os.path.join(self.path, "curve.svg")
        self._config = os.path.join(self.path, "config.json")
        self._outcome = os.path.join(self.path, "outcome.json")

    def open_metrics(self, *, goes_on: bool) -> TextIO:
        """The file for metrics, in a directory that is made for it. No other run writes to it; it is empty unless this run goes on."""
        import fcntl

        os.makedirs(self.path, exist_ok=True)
        file = open(self.metrics, "a", encoding="utf-8", opener=_without_link)  # noqa: SIM115 - kept open, and with it the lock
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UmiakError.refused(
                "UM-TRAIN-065",
                f"another run writes to this run directory: {self.path}",
                hint="wait for it, or choose another: `--run_dir`; both would also save to the same save_checkpoint_path",
            ) from None
        except OSError:
            pass  # a file system without locks
        if not goes_on:
            file.truncate(0)
        return file

    def write_plot(self, svg: str) -> None:
        """The picture of the run's curves."""
        with open(self.plot, "w", encoding="utf-8", opener=_without_link) as file:
            file.write(svg)

    def write_config(self, config: JsonMapping) -> None:
        """What this run is trained with."""
        _write_whole(self._config, config)

    def write_outcome(self, outcome: JsonMapping) -> None:
        """How it ended."""
        _write_whole(self._outcome, outcome)

    def outcome(self) -> JsonObject | None:
        """How the first trainer ended; None if it has not told."""
        try:
            with open(self._outcome, encoding="utf-8") as file:
                told: JsonObject = json.load(file)
                return told
        except (OSError, ValueError):
            return None

    def forget_outcome(self) -> None:
        """That of an earlier run, if there is one."""
        try:
            os.unlink(self._outcome)
        except FileNotFoundError:
            pass


def _write_whole(path: str, data: JsonMapping) -> None:
    """Who reads it sees all of it or nothing."""
    with open(f"{path}.tmp", "w", encoding="utf-8", opener=_without_link) as file:
        json.dump(data, file)
    os.replace(f"{path}.tmp", path)


def _without_link(path: str, flags: int) -> int:
    """Where somebody else made the directory first, a link in the place of a file would have this run overwrite what it leads to."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)

"""What a trainer is given: what a plan says to every run, and what it works with; and how far it has come. Values."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from umiak.core.value import replace, value
from umiak.ps.sessions import Session
from umiak.train.checkpoints.mirror import Mirrors
from umiak.train.checkpoints.progress import EpochRow, Progress
from umiak.train.config.evaluating.settings import EvaluationSettings
from umiak.train.config.objectives.retrieval import Retrieval
from umiak.train.config.objectives.settings import Objective
from umiak.train.config.values import EmbeddingTables, Learning, TableParameters
from umiak.train.reports.reporter import Reporter
from umiak.train.run.peers import Peers
from umiak.train.run.stop_signal import StopSignal
from umiak.train.run.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.json_types import JsonObject
    from umiak.train.config.values import Free
    from umiak.train.engines.engine import Framework


@value
class Settings:
    """What of a plan every run shares, and what was asked for beside it."""

    config: str = ""
    hyper_parameters: Free = {}
    written: Free = {}
    """The config as it is written."""
    table_parameters: dict[str, TableParameters] = {}
    learning: Learning = Learning()
    resume: bool = False
    embedding_tables: EmbeddingTables = EmbeddingTables.SHARED
    evaluation: EvaluationSettings = EvaluationSettings()
    objective: Objective = Objective()
    retrieval: Retrieval = Retrieval()
    prefix: str = ""
    """Before the names of all tables."""

    @property
    def for_engines(self) -> JsonObject:
        """What every engine is told."""
        return {
            "learning": self.learning,
            "tables": self.table_parameters,
            "embedding_tables": self.embedding_tables,
            "objective": self.objective,
            "retrieval": self.retrieval,
            "written": self.written,
        }


@value
class TrainerContext:
    """What a trainer works with."""

    framework: Framework
    job: Session
    peers: Peers
    watch: Stopwatch
    reporter: Reporter
    stopping: StopSignal
    mirrors: Mirrors = Mirrors()
    clock: Callable[[], float] = time.monotonic
    """Seconds, for checkpoints that are due after some minutes."""


class RunState:
    """What of a run changes while it goes on, and is in each of its checkpoints."""

    def __init__(self) -> None:
        self.run_id = ""
        """Another one each time that a run begins."""
        self.seed = 0
        self.step = 0
        """This trainer's steps since the beginning of the run."""
        self.history: list[EpochRow] = []
        self.best: float | None = None
        """What early stopping has seen so far."""
        self.without_progress = 0
        """Epochs since then."""
        self.until = ""
        """Online learning: the last directory of the last pass that is done."""
        self.evaluated: dict[str, float | None] = {}
        """Online learning: what the pass was evaluated with before it was trained on."""
        self.stream = ""
        """Which messages of a stream are done, and which are in this pass: JSON."""
        self.warned: set[str] = set()
        """What was warned of already; it is not in a checkpoint."""

    def resume(self, progress: Progress) -> None:
        """Go on from there."""
        self.history = list(progress.history)
        self.best, self.without_progress = progress.best, progress.without_progress
        self.step = progress.step

    def in_checkpoint(self, progress: Progress) -> Progress:
        """The same, with all of this in it."""
        return replace(
            progress,
            run=self.run_id,
            seed=self.seed,
            step=self.step,
            history=tuple(self.history),
            best=self.best,
            without_progress=self.without_progress,
            until=self.until,
            evaluated=self.evaluated,
            stream=self.stream,
        )

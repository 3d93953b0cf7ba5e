"""What a trainer is given: what a plan says to every run, and what it works with. Values."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from umiak.core.value import value
from umiak.ps.sessions import Session
from umiak.train.checkpoints.mirror import Mirrors
from umiak.train.config.values import EmbeddingTables, Learning, TableParameters
from umiak.train.reports.reporter import Reporter
from umiak.train.run.peers import Peers
from umiak.train.run.stop_signal import StopSignal
from umiak.train.run.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.train.config.values import Free


@value
class Settings:
    """What of a plan every act shares, and what was asked for beside it."""

    config: str = ""
    hyper_parameters: Free = {}
    written: Free = {}
    """The config as it is written."""
    table_parameters: dict[str, TableParameters] = {}
    learning: Learning = Learning()
    resume: bool = False
    embedding_tables: EmbeddingTables = EmbeddingTables.SHARED
    prefix: str = ""
    """Before the names of all tables."""


@value
class TrainerContext:
    """What a trainer works with."""

    job: Session
    peers: Peers
    watch: Stopwatch
    reporter: Reporter
    stopping: StopSignal
    mirrors: Mirrors = Mirrors()
    clock: Callable[[], float] = time.monotonic
    """Seconds, for checkpoints that are due after some minutes."""

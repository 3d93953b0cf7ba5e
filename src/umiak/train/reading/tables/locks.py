"""The lock of a config's features: beside the config, in every checkpoint and in every inference model. An adapter.

known(section, "ctr/config.yaml", "ctr/output/0")     that of a checkpoint, or of the file; UmiakError if it is another's
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import umiak
from umiak.core.problem import UmiakError
from umiak.data.features import lock_files

if TYPE_CHECKING:
    from umiak.data.features.fitting import FitProgress
    from umiak.data.features.lock import FeatureLock
    from umiak.schema.features.section import FeatureSection

TELL_EVERY_S = 5.0


def known(section: FeatureSection, config: str, checkpoint: str | None = None) -> FeatureLock | None:
    """The lock that a model was trained with, or that was fitted before; None: there is none. UmiakError if two differ, or it is another section's."""
    own = beside(os.path.dirname(config))
    found = lock_files.read_lock(own, section) if os.path.exists(own) else None
    saved = beside(checkpoint) if checkpoint else ""
    if not saved or not os.path.exists(saved):
        return found
    trained = lock_files.read_lock(saved, section)
    if found is not None and found.sha256 != trained.sha256:
        raise other_lock(own, saved)
    return trained


def known_or_given(section: FeatureSection, config: str) -> FeatureLock | None:
    """The same; of features that need no data, one that is not written."""
    found = known(section, config)
    return lock_files.of_section(section) if found is None and not section.is_fitted else found


class FitLines:
    """A line now and then: how far fitting is, how fast, and how long it still takes."""

    def __init__(
        self, say: Callable[[str], None], trainers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``trainers``: among how many the rows are divided; the lines tell of this one's share."""
        self._say, self._clock = say, clock
        self._share = f" of this trainer's share, 1 of {trainers}" if trainers > 1 else ""
        self._began = self._told = clock()

    def told(self, progress: FitProgress) -> None:
        """Heard in any thread, one call at a time."""
        umiak.progress()
        now = self._clock()
        if now - self._told < TELL_EVERY_S:
            return
        self._told = now
        self._say(fit_line(progress, now - self._began, self._share))


def fit_line(progress: FitProgress, seconds: float, share: str = "") -> str:
    """How far fitting is after some seconds."""
    done = progress.bytes / progress.of_bytes if progress.of_bytes else 1.0
    left = f", {seconds * (1 - done) / done:,.0f} s left" if 0 < done < 1 else ""
    bad = f", {progress.bad:,} bad" if progress.bad else ""
    rate = progress.rows / seconds if seconds > 0 else 0.0
    return f"fits features: {done:.0%}{share}, {progress.rows:,} rows, {rate:,.0f} rows/s{left}{bad}"


def write(lock: FeatureLock, directory: str) -> None:
    """The lock in a directory."""
    lock_files.write_lock(lock, beside(directory))


def files_in(directory: str) -> list[str]:
    """The lock and its vocabularies; nothing where there is none."""
    return sorted(glob.glob(os.path.join(glob.escape(directory), "features.*")))


def beside(directory: str) -> str:
    """Where a lock lies in a directory."""
    return os.path.join(directory, lock_files.NAME)


def other_lock(own: str, saved: str) -> UmiakError:
    """A model was trained with another lock than the one that is there."""
    return UmiakError.of(
        "UM-TRAIN-600",
        f"{own} is another lock than the model was trained with: {saved}",
        why="features were fitted again since: the same row would give other ids and numbers",
        hint=f"move {own} away, and that of the model is used; or train again",
    )

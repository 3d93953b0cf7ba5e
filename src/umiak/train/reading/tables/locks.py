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
from umiak.data import features
from umiak.data.features import lock_files
from umiak.data.tables import look, parts
from umiak.train.reading.tables import sources

if TYPE_CHECKING:
    from umiak.data.features.fitting import FitProgress
    from umiak.data.features.lock import FeatureLock
    from umiak.schema.features.section import FeatureSection
    from umiak.train.config.values import Dataset
    from umiak.train.reading.finding import Files

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


def fit(dataset: Dataset, found: Files, config: str, say: Callable[[str], None], *, threads: int = 1) -> None:
    """One pass over the rows that are trained on, as far as their time says which; written beside the config; or nothing but writing, where no data is needed."""
    section = dataset.features
    assert section is not None
    if not section.is_fitted:
        write(lock_files.of_section(section), os.path.dirname(config))
        return
    say(f"fits features to dataset {dataset.name}: one pass over {len(found.files)} files")
    source = sources.text_reading(dataset)
    tables = [look(file.path, source) for file in found.files if file.size]
    lock = features.fit(
        section,
        parts(tables),
        threads=threads,
        bad_rows=dataset.bad_rows,
        between=(dataset.rows_after, dataset.rows_before),
        told=_Progress(say).told,
    )
    write(lock, os.path.dirname(config))
    say(f"fitted to {lock.rows:,} rows: {beside(os.path.dirname(config))}")


class _Progress:
    """A line now and then."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told = time.monotonic()

    def told(self, progress: FitProgress) -> None:
        umiak.progress()
        now = time.monotonic()
        if now - self._told < TELL_EVERY_S:
            return
        self._told = now
        done = progress.bytes / progress.of_bytes if progress.of_bytes else 1.0
        self._say(
            f"fits features: {progress.rows:,} rows, {done:.0%}" + (f", {progress.bad:,} bad" if progress.bad else "")
        )


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

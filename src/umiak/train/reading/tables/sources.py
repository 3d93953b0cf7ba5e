"""How the tables of a dataset are read, from its config and the lock of its features. An adapter: it makes what reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.data.features.row_choice import RowChoice
from umiak.data.features.transform import FeatureTransform
from umiak.data.tables import TextReading
from umiak.train.reading.tables.encoding import FeatureEncoder
from umiak.train.reading.tables.samples import RowSource

if TYPE_CHECKING:
    from umiak.data.features.lock import FeatureLock
    from umiak.train.config.values import Dataset


def source(dataset: Dataset, lock: FeatureLock | None, *, predicted: Sequence[str] | None = None) -> RowSource | None:
    """None: its files are no tables. ``predicted``: no labels are read, and these columns are kept as they are."""
    if dataset.features is None:
        return None
    encoder = encoder_of(dataset, lock, labels=predicted is None)
    return RowSource(encoder, text_reading(dataset), bad_rows=dataset.bad_rows, kept=predicted or ())


def encoder_of(dataset: Dataset, lock: FeatureLock | None, *, labels: bool = True) -> FeatureEncoder:
    """How its rows become samples. UmiakError if its features were not fitted."""
    if lock is None:
        what = f"dataset {dataset.name}: its features were not fitted"
        raise UmiakError.of("UM-DATA-121", what, hint="`umiak train` fits them, or `umiak features fit`")
    return FeatureEncoder(FeatureTransform(lock), chosen_rows(dataset) if labels else RowChoice(), labels=labels)


def chosen_rows(dataset: Dataset) -> RowChoice:
    """Which rows of its files are samples."""
    return RowChoice(before=dataset.rows_before, after=dataset.rows_after, share=dataset.rows_share)


def text_reading(dataset: Dataset) -> TextReading:
    """How a dataset says that texts are read."""
    return TextReading(names=dataset.column_names or None, newlines=dataset.quoted_newlines)

"""Features: from the columns of a table, or from a request, to the ids and numbers that a model is trained with.

    section = features.load("config.yaml")                       the section `features:` of a config
    lock = features.fit(section, tables.parts([table]))          one pass over the data: means, boundaries, vocabularies
    transform = features.FeatureTransform(lock)
    for batch in tables.read(parts, transform.wanted()):
        transform.batch(batch).features["user"].ids              # uint64

What a config says: `umiak.schema.features`. What was fitted: `lock`, its files `lock_files`, made by `fitting` out of `sketches`. What a batch or a
request becomes: `transform`, each feature by a kernel of `kernels`.
"""

from __future__ import annotations

from umiak.data.features.fitting import fit
from umiak.data.features.kernels import FeatureColumn
from umiak.data.features.lock import FeatureLock, FittedColumn, FittedTable, Vocabulary
from umiak.data.features.lock_files import of_section, read_lock, write_lock
from umiak.data.features.transform import FeatureBatch, FeatureTransform, keys_of
from umiak.schema.features.reading import load
from umiak.schema.features.section import Feature, FeatureKind, FeatureSection

__all__ = [
    "Feature",
    "FeatureBatch",
    "FeatureColumn",
    "FeatureKind",
    "FeatureLock",
    "FeatureSection",
    "FeatureTransform",
    "FittedColumn",
    "FittedTable",
    "Vocabulary",
    "fit",
    "keys_of",
    "load",
    "of_section",
    "read_lock",
    "write_lock",
]

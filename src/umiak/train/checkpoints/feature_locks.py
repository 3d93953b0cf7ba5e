"""The lock of a run's features: that of a checkpoint or beside the config; where there is none, all trainers make it in one pass over the data. An adapter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.data.features import lock_files
from umiak.train.checkpoints import fitting_together, runs
from umiak.train.reading.tables import locks

if TYPE_CHECKING:
    from umiak.data.features.lock import FeatureLock
    from umiak.schema.features.section import FeatureSection
    from umiak.train.checkpoints.fitting_together import FittingPeers
    from umiak.train.plan.plan import Run


def prepared(
    run: Run,
    config: str,
    checkpoint: str | None,
    peers: FittingPeers,
    say: Callable[[str], None],
    look: Callable[[], None] = lambda: None,
) -> FeatureLock | None:
    """For training; ``checkpoint``: what it goes on from; ``look`` is called while features are fitted, and may raise what ends it. None: the data is no tables. Every trainer calls it."""
    section = section_of(run)
    if section is None:
        return None
    if checkpoint:
        lock = _agreed(_trained(section, config, checkpoint), config, peers)
    else:
        lock = _shared(locks.known(section, config), section, config, peers)
    if lock is not None:
        return lock
    stage = next(stage for stage in run.stages if stage.dataset.features)
    if not section.is_fitted:
        if peers.is_first:
            locks.write(lock_files.of_section(section), os.path.dirname(config))
        fitting_together.brought(os.path.dirname(config), peers)
    elif stage.dataset.stream is not None:
        what = f"dataset {stage.dataset.name} is a stream, and its features were not fitted: a stream is read once"
        raise UmiakError.of(
            "UM-DATA-121", what, hint=f"`umiak features fit -m {config} --data FILES`, to a day of it in files"
        )
    else:
        node_data = run.group.node_data
        threads = max(1, stage.threads)
        fitting_together.fit(stage.dataset, config, peers, say, threads=threads, node_data=node_data, look=look)
    lock = _agreed(locks.known(section, config), config, peers)
    if lock is None:
        raise _not_the_same(config)
    return lock


def of_models(run: Run, config: str, models: Sequence[str]) -> FeatureLock | None:
    """The one that these models were trained with. UmiakError if there is none, or they were trained with several."""
    section = section_of(run)
    if section is None:
        return None
    found = {path: _trained(section, config, path) for path in models}
    first = found[models[0]]
    for path, lock in found.items():
        if lock is None:
            what = f"{path}: it was not trained with features"
            raise UmiakError.of("UM-TRAIN-600", what, hint="evaluate with the config that it was trained with")
        if first is not None and lock.sha256 != first.sha256:
            raise locks.other_lock(locks.beside(models[0]), locks.beside(path))
    return first


def section_of(run: Run) -> FeatureSection | None:
    """The features of its data, if that is tables."""
    stages = [*run.stages, *([run.evaluation] if run.evaluation else [])]
    return next((stage.dataset.features for stage in stages if stage.dataset.features), None)


def _trained(section: FeatureSection, config: str, checkpoint: str) -> FeatureLock | None:
    """The lock that a checkpoint was trained with. UmiakError if the one that is there is another."""
    found = locks.known(section, config, checkpoint)
    told = runs.features_of(checkpoint)
    if found is not None and told is not None and told != found.sha256:
        raise locks.other_lock(locks.beside(os.path.dirname(config)), checkpoint)
    return found


def _agreed(lock: FeatureLock | None, config: str, peers: FittingPeers) -> FeatureLock | None:
    if len(set(peers.agree_on(lock.sha256 if lock else "", "lock"))) > 1:
        raise _not_the_same(config)
    return lock


def _shared(lock: FeatureLock | None, section: FeatureSection, config: str, peers: FittingPeers) -> FeatureLock | None:
    """The first trainer's is for those who see none."""
    told = peers.agree_on(lock.sha256 if lock else "", "lock")
    if len(set(told)) == 1:
        return lock
    if not told[0] or set(told) - {told[0], ""}:
        raise _not_the_same(config)
    fitting_together.brought(os.path.dirname(config), peers)
    return _agreed(locks.known(section, config), config, peers)


def _not_the_same(config: str) -> UmiakError:
    return UmiakError.of(
        "UM-TRAIN-601",
        "trainers do not see the same lock of features",
        why=f"it lies beside the config: {config}",
        hint="let the config be in a directory that all nodes share, or run `umiak features fit` and copy the lock with the config",
    )

"""The lock of a run's features: that of a checkpoint or beside the config; where there is none, the first trainer makes it in one pass over the data. An adapter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from umiak.core.problem import UmiakError
from umiak.train import reading
from umiak.train.checkpoints import runs
from umiak.train.reading.tables import locks

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.data.features.lock import FeatureLock
    from umiak.schema.features.section import FeatureSection
    from umiak.train.plan.plan import Run


class LockPeers(Protocol):
    """What is asked of the other trainers: `umiak.train.run.peers`."""

    world: int

    @property
    def is_first(self) -> bool: ...
    def tell(self, message: JsonObject, name: str = "tell") -> list[JsonObject]: ...
    def agree_on(self, text: str, name: str = "agree") -> list[str]: ...


def prepared(
    run: Run, config: str, checkpoint: str | None, peers: LockPeers, say: Callable[[str], None]
) -> FeatureLock | None:
    """For training; ``checkpoint``: what it goes on from. None: the data is no tables. Every trainer calls it."""
    section = section_of(run)
    if section is None:
        return None
    lock = _agreed(_trained(section, config, checkpoint) if checkpoint else locks.known(section, config), config, peers)
    if lock is not None:
        return lock
    if peers.is_first:
        stage = next(stage for stage in run.stages if stage.dataset.features)
        if stage.dataset.stream is not None and section.is_fitted:
            what = f"dataset {stage.dataset.name} is a stream, and its features were not fitted: a stream is read once"
            raise UmiakError.of(
                "UM-DATA-121", what, hint=f"`umiak features fit -m {config} --data FILES`, to a day of it in files"
            )
        # The others wait: it may have as many cores as there are trainers, and the lock is the same with any number.
        threads = max(stage.threads, min(peers.world, len(os.sched_getaffinity(0))))
        locks.fit(stage.dataset, reading.find(stage.dataset), config, say, threads=threads)
    peers.tell({}, "fitted")
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


def _agreed(lock: FeatureLock | None, config: str, peers: LockPeers) -> FeatureLock | None:
    if len(set(peers.agree_on(lock.sha256 if lock else "", "lock"))) > 1:
        raise _not_the_same(config)
    return lock


def _not_the_same(config: str) -> UmiakError:
    return UmiakError.of(
        "UM-TRAIN-601",
        "trainers do not see the same lock of features",
        why=f"it lies beside the config: {config}",
        hint="let the config be in a directory that all nodes share, or run `umiak features fit` and copy the lock with the config",
    )

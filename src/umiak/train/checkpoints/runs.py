"""Checkpoints of a run: where they are, which is the newest, how a run goes on from one. An adapter.

    PATH/EPOCH/                   after an epoch, counted from 0 as PaddleRec does
    PATH/epoch_E_batch_B/         within one
    PATH/DAY/PASS/                after a pass of online learning
    PATH/DAY/PASS_batch_B/        within one

Each is a checkpoint of `umiak.ps` (docs/reference/checkpoints.md) whose metadata says how far the run has come. It appears under its name when it
is whole, so a run that is killed while it saves has the one before.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import umiak_native

from umiak.core.problem import UmiakError, free_space
from umiak.core.value import value
from umiak.ps import checkpoint, values
from umiak.ps.manifest import FILE_NAME, BadCheckpoint, Manifest
from umiak.ps.sessions import Session
from umiak.ps.values import Opened
from umiak.train.checkpoints import paddlerec
from umiak.train.checkpoints.progress import Progress, from_plain, to_plain
from umiak.train.config.kinds import is_day
from umiak.train.config.values import Saving

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping

NEXT = ".next"
"""Behind the name of a checkpoint that will replace one."""
STEPS_KEPT = 3
FREE_SPACE = free_space("save elsewhere: save_checkpoint_path")
BEST = "best"
"""A link to the checkpoint that early stopping found best."""
PREVIOUS = "previous-"
"""Before the number of a directory with what an earlier run has saved."""
_EPOCH = re.compile(r"\d+")
_STEP = re.compile(r"(epoch_)?\d+_batch_\d+")
_LEFT = re.compile(rf"({_EPOCH.pattern}|{_STEP.pattern})(\{NEXT})?(\{checkpoint.PARTIAL}|\{checkpoint.REMOVING})")
"""What is left of a checkpoint where a run was killed while it saved or removed it."""


@value
class Saved:
    """A checkpoint of a run."""

    path: str
    progress: Progress
    manifest: Manifest


def epoch_path(path: str, epoch: int) -> str:
    """Where the end of an epoch is saved."""
    return os.path.join(path, str(epoch))


def inference_path(path: str, epoch: int, checkpoint: Saving | None) -> str:
    """Where the inference model of an epoch is saved: within its checkpoint, where both have the same directory."""
    is_shared = checkpoint is not None and os.path.abspath(checkpoint.path) == os.path.abspath(path)
    return os.path.join(path, str(epoch), "inference") if is_shared else epoch_path(path, epoch)


def step_path(path: str, epoch: int, batch: int) -> str:
    """Where a place within an epoch is saved."""
    return os.path.join(path, f"epoch_{epoch}_batch_{batch}")


def pass_path(path: str, day: str, number: int) -> str:
    """Where the end of a pass is saved."""
    return os.path.join(path, day, str(number))


def pass_step_path(path: str, day: str, number: int, batch: int) -> str:
    """Where a place within a pass is saved."""
    return os.path.join(path, day, f"{number}_batch_{batch}")


def save(job: Session, path: str, progress: Progress) -> None:
    """Save all tables with how far the run has come. Every trainer calls it; the first one saves."""
    put(job, path, to_plain(progress))


def put(job: Session, path: str, metadata: JsonMapping, *, mode: str = "all") -> None:
    """Save what of the tables ``mode`` asks for; one of that name is replaced. Every trainer calls it; the first one saves."""
    # One of the same name, of an earlier run or of the same place, stays until the new one is whole.
    made = path
    try:
        if job.is_first:
            made = _room(path)
        job.save(made, metadata=metadata, mode=mode)
        if made != path:
            os.rename(path, f"{path}{checkpoint.REMOVING}")
            os.rename(made, path)
            _remove(f"{path}{checkpoint.REMOVING}")
    except (OSError, UmiakError, umiak_native.Refused, umiak_native.BadFile) as error:
        if job.is_first:
            _remove(str(checkpoint.partial(made)))  # a disk that is full does not need it
        raise _failed(path, _words(error), hint=f"{FREE_SPACE}; {_outlook(path)}") from error


def start_from(job: Session, path: str, tables: Mapping[str, Opened], manifest: Manifest | None = None) -> bool:
    """Take a checkpoint over; False: its values alone, because its tables learn otherwise. Every trainer calls it."""
    manifest = manifest or checkpoint.read(path)
    try:
        whole = values.fits(manifest, tables, shards=job.options.shards)
        if whole:
            job.load(path, manifest)
            return True
        if job.is_first or job.communicator.keeps_tables:
            values.copy(path, manifest, job.client, tables)
    except (umiak_native.BadFile, umiak_native.Refused) as error:
        raise UmiakError.refused(
            "UM-TRAIN-022",
            f"a checkpoint can't be loaded: {path}",
            why=_words(error),
            hint="move it away: `--resume` then continues from the previous one",
        ) from error
    job.meet("values")
    job.communicator.reload()
    return False


def try_paths(paths: Iterable[str | None]) -> None:
    """UmiakError if nothing could be saved there: better before the first epoch than after it."""
    for path in dict.fromkeys(path for path in paths if path):
        _try_path(path)


def _try_path(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".umiak-try-", dir=path)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise _failed(path, _words(error), hint=FREE_SPACE) from error


def put_aside(paths: Iterable[str | None], runner: str) -> tuple[str, ...]:
    """Move what earlier runs of this runner have saved to directories of their own; returns these.

    A run that begins from scratch would mix its checkpoints with theirs.
    """
    made = []
    for path in dict.fromkeys(path for path in paths if path):
        found = [saved.path for saved in _all(path) if saved.progress.runner == runner]
        # PaddleRec's own have the same names, and must not be taken for something that may be replaced.
        found += [str(each) for each in paddlerec.below(path)]
        if not found:
            continue
        number = next(n for n in itertools.count(1) if not os.path.exists(os.path.join(path, f"{PREVIOUS}{n}")))
        target = os.path.join(path, f"{PREVIOUS}{number}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, BEST))
        for each in found:
            to = os.path.join(target, os.path.relpath(each, path))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.rename(each, to)
        made.append(target)
    return tuple(made)


def mark_best(path: str) -> None:
    """Let ``best`` beside a checkpoint lead to it."""
    link = os.path.join(os.path.dirname(path), BEST)
    partial = f"{link}{checkpoint.PARTIAL}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    os.symlink(os.path.basename(path), partial)
    os.replace(partial, link)


def keep(path: str, kept: int | None, *, steps: bool) -> None:
    """Remove all but the ``kept`` that were saved last, and the best; of those within epochs `STEPS_KEPT` if nothing was said."""
    most = kept or (STEPS_KEPT if steps else None)
    if most is not None:
        pattern = _STEP if steps else _EPOCH
        # By time, not by how far each is: an earlier run may have come further.
        found = sorted(
            (saved for saved in _all(path) if pattern.fullmatch(os.path.basename(saved.path))),
            key=lambda saved: (saved.manifest.saved, _reach(saved)),
        )
        best = os.path.realpath(os.path.join(path, BEST))
        for saved in (each for each in found[:-most] if os.path.realpath(each.path) != best):
            _remove(f"{saved.path}{checkpoint.REMOVING}")
            os.rename(saved.path, f"{saved.path}{checkpoint.REMOVING}")
    for each in [*_inner(path), *(each for day in _days(path) for each in _inner(day))]:
        if _LEFT.fullmatch(each.name):
            _remove(str(each))


def newest(paths: Iterable[str | None], runner: str) -> tuple[Saved | None, tuple[str, ...]]:
    """The whole checkpoint that the last run of this runner came furthest with, and words about what was passed over."""
    found: list[Saved] = []
    skipped: list[str] = []
    for path in dict.fromkeys(path for path in paths if path):
        whole, words = _whole(path)
        skipped += words
        found += [saved for saved in _of_runs(whole) if saved.progress.runner == runner]
    if not found:
        return None, tuple(skipped)
    run = max(found, key=lambda saved: saved.manifest.saved).progress.run
    return max((saved for saved in found if saved.progress.run == run), key=_reach), tuple(skipped)


def latest(paths: Iterable[str | None]) -> str | None:
    """The whole checkpoint below these directories that was saved last, of any run."""
    found = [saved for path in dict.fromkeys(path for path in paths if path is not None) for saved in _all(path or ".")]
    return max(found, key=lambda saved: saved.manifest.saved).path if found else None


def models_below(path: str, epochs: tuple[int, int] | None) -> tuple[str, ...]:
    """The checkpoints that a path stands for: itself, or every whole one in it, oldest first."""
    try:
        checkpoint.read(path)
    except BadCheckpoint as error:
        if paddlerec.is_there(path) or paddlerec.has_variables(path):
            return (path,)
        below = sorted([*(each for each, _ in _whole(path)[0]), *paddlerec.below(path)], key=_order)
        if epochs is not None:
            below = [each for each in below if each.name.isdecimal() and epochs[0] <= int(each.name) < epochs[1]]
        if not below:
            raise UmiakError.of(
                "UM-TRAIN-016",
                f"no checkpoint is there: {path}",
                why=error.problems[0].what if not Path(path).is_dir() else None,
                hint="init_model_path is a checkpoint, or a directory of checkpoints that a training has saved",
            ) from None
        return tuple(str(each) for each in below)
    return (path,)


def model_to_use(path: str) -> tuple[str, str | None]:
    """Of the checkpoints that a path stands for the one to answer with: the best, where early stopping of the last run has found one, else the newest.

    The second is the newest, where it is another one.
    """
    found = models_below(path, None)
    newest = found[-1]
    best = os.path.realpath(os.path.join(path, BEST))
    better = next((each for each in found if os.path.realpath(each) == best and each != newest), None)
    if better is None or _run_of(better) != _run_of(newest):
        return newest, None
    return better, newest


def _run_of(path: str) -> str | None:
    if paddlerec.is_there(path) or paddlerec.has_variables(path):
        return None
    progress = from_plain(checkpoint.read(path).metadata)
    return progress.run if progress else None


def seed_of(path: str) -> int | None:
    """What the first rows of its tables were made from. Tables with an accessor are taken over as a whole, so theirs must be the same."""
    if paddlerec.is_there(path) or paddlerec.has_variables(path):
        return None
    specs = [table.spec for table in checkpoint.read(path).tables.values()]
    return next((int(spec["seed"]) for spec in specs if spec["kind"] == "sparse"), None)


def features_of(path: str) -> str | None:
    """The hash of the features' lock that a checkpoint was trained with; None: it says none."""
    progress = from_plain(checkpoint.read(path).metadata)
    return progress.features or None if progress else None


def _all(path: str) -> list[Saved]:
    return _of_runs(_whole(path)[0])


def _of_runs(whole: Iterable[tuple[Path, Manifest]]) -> list[Saved]:
    progresses = [(each, manifest, from_plain(dict(manifest.metadata))) for each, manifest in whole]
    return [
        Saved(path=str(each), progress=progress, manifest=manifest)
        for each, manifest, progress in progresses
        if progress is not None
    ]


def _whole(path: str) -> tuple[list[tuple[Path, Manifest]], list[str]]:
    """Whole checkpoints in a directory, and in those of its days, where inference models may stand beside them; and words about the
    others."""
    whole: list[tuple[Path, Manifest]] = []
    skipped: list[str] = []
    for directory in (Path(path), *_days(path)):
        there, words = checkpoint.survey(directory)
        is_of_day = directory != Path(path)
        whole += sorted(
            (found for found in there if found[0].name != BEST and (not is_of_day or _is_ours(found[0].name))),
            key=lambda found: found[0],
        )
        skipped += words
    return whole, skipped


def _inner(path: str | Path) -> list[Path]:
    try:
        return sorted(each for each in Path(path).iterdir() if each.is_dir() and each.name != BEST)
    except OSError:
        return []


def _days(path: str) -> list[Path]:
    return [each for each in _inner(path) if is_day(each.name) and not (each / FILE_NAME).exists()]


def _is_ours(name: str) -> bool:
    name = name.removesuffix(NEXT)
    return bool(_EPOCH.fullmatch(name) or _STEP.fullmatch(name))


def _order(path: Path) -> tuple[str, int, int, str]:
    """Epochs, or days and passes, by number; what was saved within one stands before its end."""
    day = path.parent.name if is_day(path.parent.name) else ""
    numbers = [int(each) for each in re.findall(r"\d+", path.name)]
    if path.name.isdecimal():
        return day, numbers[0], 1 << 60, path.name
    return (day, numbers[0], numbers[1], path.name) if _STEP.fullmatch(path.name) else (day, 1 << 60, 0, path.name)


def _reach(saved: Saved) -> tuple[str, int, int, int, int]:
    progress = saved.progress
    return progress.until, progress.epoch, progress.stage, progress.batch, progress.step


def _room(path: str) -> str:
    """Where a checkpoint is made that shall have this name, all that is in its way put aside."""
    _remove(f"{path}{checkpoint.REMOVING}")
    if not os.path.isdir(path):
        if not os.path.isdir(f"{path}{NEXT}"):
            return path
        os.rename(f"{path}{NEXT}", path)  # a run was killed when only this was left to do
    _remove(f"{path}{NEXT}")
    return f"{path}{NEXT}"


def _words(error: Exception) -> str:
    if isinstance(error, UmiakError):
        return ": ".join(each for each in (error.problems[0].what, error.problems[0].why) if each)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _outlook(path: str) -> str:
    """What `--resume` finds beside a checkpoint that could not be saved."""
    directory = os.path.dirname(path)
    if is_day(os.path.basename(directory)):
        directory = os.path.dirname(directory)
    if previous := latest([directory]):
        return f"`--resume` continues from the checkpoint before it: {previous}"
    return f"no other checkpoint is in {directory or '.'}: `--resume` would begin at the start"


def _failed(path: str, why: str, *, hint: str) -> UmiakError:
    return UmiakError.refused("UM-TRAIN-017", f"a checkpoint can't be saved: {path}", why=why, hint=hint)

"""Models for serving, the list of them, and checkpoints of passes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("umiak_native")

from umiak.ps import checkpoint, environment, strategies
from umiak.ps.manifest import Manifest
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.train.checkpoints import publish, runs
from umiak.train.checkpoints.progress import Progress
from umiak.train.checkpoints.publish import Model, PublishKind


def job() -> Session:
    made = Session(environment.PsSeat(), strategies.Sync(), SessionOptions(shards=4))
    made.client.create_table("net", json.dumps(DENSE))
    return made


DENSE = {
    "kind": "dense",
    "arrays": [{"name": "w", "shape": [2]}],
    "optimizer": {"rule": "sgd", "learning_rate": 0.1},
    "clip": {"value": None, "norm": None, "weight": None},
}


def progress(until: str, epoch: int, batch: int = 0, runner: str = "r") -> Progress:
    return Progress(runner=runner, mode="alone", trainers_in_all=1, seed=1, epoch=epoch, batch=batch, until=until)


def test_names_of_models() -> None:
    names = [
        Model(kind=PublishKind.BASE, day="20260131", number=0),
        Model(kind=PublishKind.BASE, day="20260131", number=24),
        Model(kind=PublishKind.DELTA, day="20260131", number=6),
        Model(kind=PublishKind.BATCH, day="20260131", number=24),
    ]
    assert [each.name for each in names] == ["20260131/base-0", "20260131/base", "20260131/delta-6", "20260131/batch"]


def test_what_is_published_is_in_the_list(tmp_path: Path) -> None:
    own = job()
    for model in (
        Model(kind=PublishKind.DELTA, day="20260131", number=6),
        Model(kind=PublishKind.BASE, day="20260131", number=24),
    ):
        at = publish.publish(own, str(tmp_path), model)
        assert checkpoint.read(at).metadata == {
            "umiak_published": {"day": "20260131", "pass": model.number, "kind": model.kind.value}
        }
    # Published again by a run that was resumed: the new one takes the old one's place.
    publish.publish(own, str(tmp_path), Model(kind=PublishKind.BASE, day="20260131", number=24))
    lines = [json.loads(line) for line in (tmp_path / "donefile.jsonl").read_text().splitlines()]
    assert [(each["day"], each["pass"], each["kind"], each["path"]) for each in lines] == [
        ("20260131", 6, "delta", "20260131/delta-6"),
        ("20260131", 24, "base", "20260131/base"),
        ("20260131", 24, "base", "20260131/base"),
    ]
    assert [each["time"] for each in lines] == sorted(each["time"] for each in lines)
    assert sorted(each.name for each in (tmp_path / "20260131").iterdir()) == ["base", "delta-6"]


def test_half_a_line_is_ended_first(tmp_path: Path) -> None:
    file = tmp_path / "list"
    publish.add_line(str(file), {"a": 1})
    file.write_text(file.read_text() + '{"b"')
    publish.add_line(str(file), {"c": 3})
    assert file.read_text() == '{"a": 1}\n{"b"\n{"c": 3}\n'


def test_the_newest_pass_is_found(tmp_path: Path) -> None:
    own, root = job(), str(tmp_path)
    assert runs.newest([root], "r")[0] is None
    runs.save(own, runs.pass_path(root, "20260131", 9), progress("20260131/0800", 9))
    runs.save(own, runs.pass_path(root, "20260131", 10), progress("20260131/0900", 10))
    runs.save(own, runs.pass_step_path(root, "20260131", 11, 40), progress("20260131/0900", 10, 40))
    publish.publish(own, root, Model(kind=PublishKind.BASE, day="20260131", number=24))
    found, _ = runs.newest([root], "r")
    assert found is not None
    assert found.path == f"{root}/20260131/11_batch_40"
    # A run with another first day counts its passes from there; what it has trained on decides.
    runs.save(own, runs.pass_path(root, "20260201", 1), progress("20260201/0000", 1))
    found, _ = runs.newest([root], "r")
    assert found is not None
    assert found.path == f"{root}/20260201/1"
    assert [Path(each).relative_to(root).as_posix() for each in runs.models_below(root, None)] == [
        "20260131/9",
        "20260131/10",
        "20260131/11_batch_40",
        "20260201/1",
    ]


def test_a_manifest_is_read_once_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path)
    for number in (1, 2):
        runs.save(job(), runs.pass_path(root, "20260131", number), progress("20260131/0000", number))
    paths: list[str] = []
    read = checkpoint.read

    def counted(path: str | os.PathLike[str], *, verify: bool = False) -> Manifest:
        paths.append(os.path.relpath(path, root))
        return read(path, verify=verify)

    monkeypatch.setattr(checkpoint, "read", counted)
    saved, _ = runs.newest([root], "r")
    assert saved is not None
    assert runs.start_from(job(), saved.path, {}, saved.manifest)
    checkpoints = sorted(path for path in paths if path.startswith("20260131/"))
    # The server, which is in this process, reads the one that it loads for itself.
    assert checkpoints == ["20260131/1", "20260131/2", "20260131/2"]


def test_one_that_was_never_finished_is_told(tmp_path: Path) -> None:
    runs.save(job(), runs.pass_path(str(tmp_path), "20260131", 1), progress("20260131/0000", 1))
    (tmp_path / "20260131" / "2.partial").mkdir()
    found, skipped = runs.newest([str(tmp_path)], "r")
    assert found is not None
    assert skipped == (f"{tmp_path}/20260131/2.partial: was never finished",)


def test_old_passes_are_removed(tmp_path: Path) -> None:
    own, root = job(), str(tmp_path)
    for number, day in enumerate(("20260131", "20260131", "20260201")):
        runs.save(own, runs.pass_path(root, day, number + 1), progress(f"{day}/0{number}00", number + 1))
    runs.keep(root, 2, steps=False)
    assert [Path(each).relative_to(root).as_posix() for each in runs.models_below(root, None)] == [
        "20260131/2",
        "20260201/3",
    ]

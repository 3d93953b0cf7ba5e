"""Rows of features that come late and go again: what the config says, which tables they are in, and when days end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from umiak.core.problem import UmiakError
from umiak.schema.features import reading
from umiak.train.config import load
from umiak.train.config.tabular import datasets
from umiak.train.config.values import Dataset
from umiak.train.run.streams import aging
from umiak.train.run.streams.state import StreamState

SECTION = """\
features:
  label: click
  columns:
  - {name: user, kind: id, admit: {count: 3}, expire: {days: 30}}
  - {name: friends, kind: sequence, of: user}
  - {name: city, kind: id}
"""
CONFIG = f"""\
runner:
  model: rank.dnn
  train_data_dir: data
  train_batch_size: 8
  epochs: 1
  model_save_path: output
{SECTION}"""


def section(directory: Path, text: str) -> Any:
    (directory / "config.yaml").write_text(text)
    return reading.load(directory)


def test_a_sequence_has_what_its_elements_have_and_others_have_nothing(tmp_path: Path) -> None:
    found = section(tmp_path, SECTION)
    assert [(each.table, each.admit, each.expire) for each in found.features] == [
        ("user", 3, 30),
        ("user", 3, 30),
        ("city", 0, 0),
    ]
    dataset = datasets.dataset(Dataset(name="d", data_path="", batch_size=8), found, _Nothing(), _Nothing())  # type: ignore[arg-type]
    assert [(each.table, each.admit, each.expire) for each in datasets.slots(dataset).features] == [
        ("user", 3, 30),
        ("user", 3, 30),
        ("", 0, 0),
    ]


class _Nothing:
    """Says nothing, and nobody complains."""

    def said(self, _: str) -> bool:
        return False


def test_a_lock_does_not_depend_on_it(tmp_path: Path) -> None:
    without = SECTION.replace(", admit: {count: 3}, expire: {days: 30}", "")
    assert section(tmp_path, SECTION).sha256 == section(tmp_path, without).sha256


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("{name: a, kind: id, hash: 10, admit: {count: 3}}", "features: a: admit is for open ids"),
        ("{name: a, kind: id, vocab: fit, expire: {days: 3}}", "features: a: expire is for open ids"),
        ("{name: a, kind: id, admit: {count: 0}}", "count: an integer from 1 to 1073741823 is expected"),
        ("{name: a, kind: id, admit: 3}", "admit must be {count: N}"),
        ("{name: a, kind: id, expire: {hours: 3}}", "unknown key: hours"),
        ("{name: a, kind: number, expire: {days: 3}}", "features: a: expire has no effect on a number"),
        ("{name: a, kind: sequence, of: city, admit: {count: 3}}", "features: a: of and admit are both there"),
        (
            "{name: a, kind: id, table: city, admit: {count: 3}}",
            "a shares the table city with city, and differs in admit",
        ),
    ],
)
def test_what_can_not_be_is_told(tmp_path: Path, column: str, said: str) -> None:
    with pytest.raises(UmiakError) as caught:
        section(tmp_path, f"{SECTION}  - {column}\n")
    assert any(said in each.what for each in caught.value.problems), [each.what for each in caught.value.problems]


def test_where_no_day_ends_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "data").mkdir()
    _, made = load.load(str(tmp_path / "config.yaml"))
    assert any("`expire` of friends, user" in each.what for each in made.warnings), made


@pytest.mark.parametrize(
    ("before", "now", "passed"),
    [
        ("", "2026-01-31", 0),
        ("2026-01-31", "2026-01-31", 0),
        ("2026-01-31", "2026-02-01", 1),
        ("2026-01-31", "2027-01-31", 365),
        ("2026-02-01", "2026-01-31", 0),
    ],
)
def test_days_that_pass(before: str, now: str, passed: int) -> None:
    assert aging.days_between(before, now) == passed


def test_a_stream_remembers_its_day() -> None:
    begun = StreamState(topic="t", offsets={"0": 5}).within(("0@5-9",), "2026-01-31")
    assert begun.behind().day == "2026-01-31"


@pytest.mark.parametrize(("has_servers", "is_first", "calls"), [(True, True, 4), (True, False, 0), (False, False, 4)])
def test_servers_are_told_once_and_trainers_without_servers_each_do_it(
    has_servers: bool, is_first: bool, calls: int
) -> None:
    shrunk: list[int] = []
    told: list[str] = []
    client = SimpleNamespace(shrink=lambda number: shrunk.append(number) or 5)
    peers = SimpleNamespace(is_first=is_first, meet=lambda: told.append("meet"), tell=lambda *_: told.append("tell"))
    context: Any = SimpleNamespace(peers=peers, job=SimpleNamespace(client=client))
    assert aging.end_days(2, [3, 7], context, has_servers=has_servers) == 5 * calls
    assert sorted(shrunk) == [3, 3, 7, 7][:calls]
    assert told == ["meet", "tell"]

"""Hyper-parameters as typed values, and everything that is wrong with them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.train.engines import hyper


@value
class Sizes:
    dim: int
    rate: float = 0.5
    layers: tuple[int, ...] = (8, 4)
    name: str = "x"
    deep: bool = True
    limit: int | None = None


def wrong(**given: object) -> list[str]:
    with pytest.raises(UmiakError) as caught:
        hyper.typed(Sizes, given, "config.yaml")
    assert {problem.where for problem in caught.value.problems} == {"config.yaml"}
    return [problem.what for problem in caught.value.problems]


def test_values_of_the_right_kinds() -> None:
    given = {
        "dim": 3,
        "rate": 1,
        "layers": (5,),
        "name": 7,
        "deep": False,
        "limit": None,
        "optimizer": {"class": "Adam"},
    }
    assert hyper.typed(Sizes, given) == Sizes(dim=3, rate=1.0, layers=(5,), name="7", deep=False)
    assert hyper.typed(Sizes, {"dim": 3, "limit": 5}).limit == 5


def test_keys_of_paddlerec_that_are_not_needed_are_read_over() -> None:
    assert hyper.typed(Sizes, {"dim": 3, **dict.fromkeys(hyper.NOT_NEEDED, 1)}) == Sizes(dim=3)


def test_everything_that_is_wrong_at_once() -> None:
    assert wrong(rate="fast", layers=[1, "two"], deep=1, limit=2.5, dimm=3) == [
        "hyper_parameters.rate must be a number, not 'fast'",
        "hyper_parameters.layers must be a list of integers, not [1, 'two']",
        "hyper_parameters.deep must be a boolean, not 1",
        "hyper_parameters.limit must be an integer, not 2.5",
        "the model has no hyper-parameter dimm",
        "hyper_parameters.dim is required by the model and missing",
    ]
    assert wrong(dim=True) == ["hyper_parameters.dim must be an integer, not True"]


def test_the_nearest_word_is_named() -> None:
    with pytest.raises(UmiakError) as caught:
        hyper.typed(Sizes, {"dim": 1, "layer": [2]})
    assert "did you mean `layers`?" in (caught.value.problems[0].hint or "")


# ---- standard dataclasses


@dataclass
class Open:
    dim: int
    rate: float = 0.5
    layers: list[int] = field(default_factory=lambda: [8, 4])
    kind: Literal["deep", "wide"] = "deep"
    several: int | str = 0
    more: dict[str, Any] = field(default_factory=dict)
    made: int = field(default=0, init=False)


@dataclass(frozen=True)
class Frozen:
    dim: int
    rate: float = 0.5
    layers: tuple[int, ...] = (8, 4)


@dataclass(kw_only=True)
class Narrow(Open):
    most: int = 3

    def __post_init__(self) -> None:
        if self.dim > self.most:
            raise ValueError(f"dim is at most {self.most}")


def test_a_dataclass_is_as_good_as_a_value() -> None:
    made = hyper.typed(Open, {"dim": 3, "rate": 2, "layers": (5,), "kind": "wide", "several": "x", "optimizer": {}})
    assert made == Open(3, 2.0, [5], "wide", "x")
    assert isinstance(made.layers, list)
    made.dim = 4
    assert hyper.typed(Open, {"dim": 3}).layers is not hyper.typed(Open, {"dim": 3}).layers
    assert hyper.typed(Frozen, {"dim": 3, "layers": [1, 2]}) == Frozen(3, 0.5, (1, 2))
    assert hyper.typed(Narrow, {"dim": 3}) == Narrow(dim=3)


@pytest.mark.parametrize("kind", [Open, Frozen, Narrow])
def test_what_is_wrong_with_a_dataclass(kind: type) -> None:
    with pytest.raises(UmiakError) as caught:
        hyper.typed(kind, {"rate": "fast", "layers": [1, "two"], "dimm": 3}, "config.yaml")
    assert [problem.what for problem in caught.value.problems] == [
        "hyper_parameters.rate must be a number, not 'fast'",
        "hyper_parameters.layers must be a list of integers, not [1, 'two']",
        "the model has no hyper-parameter dimm",
        "hyper_parameters.dim is required by the model and missing",
    ]


def test_more_types_of_fields() -> None:
    with pytest.raises(UmiakError) as caught:
        hyper.typed(Open, {"dim": 1, "kind": "high", "several": 1.5, "more": 3, "made": 2})
    assert [problem.what for problem in caught.value.problems] == [
        "hyper_parameters.kind must be deep or wide, not 'high'",
        "hyper_parameters.several must be an integer or text, not 1.5",
        "hyper_parameters.more must be a mapping, not 3",
    ]


def test_a_dataclass_that_refuses() -> None:
    with pytest.raises(UmiakError, match="Hyper refuses the hyper-parameters: ValueError: dim is at most 3"):
        hyper.typed(Narrow, {"dim": 9})


@pytest.mark.parametrize("kind", [type("Hyper", (), {"dim": 8}), {"dim": 8}, None])
def test_a_hyper_without_fields(kind: Any) -> None:
    with pytest.raises(UmiakError, match="Hyper is not a class of fields") as caught:
        hyper.typed(kind, {"dim": 9})
    assert "@dataclass" in (caught.value.problems[0].hint or "")


def test_a_key_that_no_field_was_meant_by_is_passed_on() -> None:
    given = {"dim": 1, "buckets": 1000, "layer_sizes": 3, "optimizer": {}}
    assert hyper.typed(Sizes, given) == Sizes(dim=1)
    first, second = hyper.passed_on(Sizes, given, "config.yaml")
    assert (first.what, first.hint) == ("the model has no hyper-parameter buckets", None)
    assert "envs.get_global_env" in (first.why or "")
    assert second.what == "the model has no hyper-parameter layer_sizes"
    assert hyper.passed_on(Sizes, {"dim": 1, "layer": 3}) == ()

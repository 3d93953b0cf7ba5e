"""Hyper-parameters as typed values, and everything that is wrong with them at once."""

from __future__ import annotations

import pytest

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.train import hyper


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
        "hyper_parameters.rate needs a number, not 'fast'",
        "hyper_parameters.layers needs a list of whole numbers, not [1, 'two']",
        "hyper_parameters.deep needs true or false, not 1",
        "hyper_parameters.limit needs a whole number, not 2.5",
        "the model has no hyper-parameter dimm",
        "hyper_parameters.dim is missing, and the model needs it",
    ]
    assert wrong(dim=True) == ["hyper_parameters.dim needs a whole number, not True"]


def test_the_nearest_word_is_named() -> None:
    with pytest.raises(UmiakError) as caught:
        hyper.typed(Sizes, {"dim": 1, "layer": [2]})
    assert "did you mean `layers`?" in (caught.value.problems[0].hint or "")

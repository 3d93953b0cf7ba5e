"""Arguments as people of Paddle and PyTorch write them: what is taken, and what is refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from umiak import ps
from umiak.ps import specs
from umiak.ps.errors import BadRequest
from umiak.ps.layers import arguments
from umiak.ps.layers.arguments import chosen_rule


class ClipGradByGlobalNorm:
    """By the name of Paddle's; the real one is in the tests with Paddle."""

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = clip_norm


class ClipGradByValue:
    def __init__(self, least: float, most: float) -> None:
        self.min, self.max = least, most


class L1Decay:
    _coeff = 0.25


class L2Decay:
    _coeff = 0.5


@pytest.mark.parametrize(
    ("rule", "weight_decay", "expected"),
    [
        ("adam", None, None),
        ("adam", 0.1, ps.Decay(l2=0.1)),
        (ps.Sgd(0.1), np.float32(0.5), ps.Decay(l2=0.5)),
        ("AdamW", None, ps.Decay(decoupled=0.01)),
        ("adamw", 0.1, ps.Decay(decoupled=0.1)),
        ("adam", L1Decay(), ps.Decay(l1=0.25)),
        ("adam", L2Decay(), ps.Decay(l2=0.5)),
        ("adam", ps.Decay(l1=1.0), ps.Decay(l1=1.0)),
    ],
)
def test_weight_decay_in_others_words(rule: object, weight_decay: object, expected: object) -> None:
    assert arguments.decay(rule, None, weight_decay) == expected


@pytest.mark.parametrize("wrong", ["0.1", True, [0.1]])
def test_a_weight_decay_that_is_none(wrong: object) -> None:
    with pytest.raises(BadRequest, match=r"weight_decay: not a weight decay.*UM-PS-171[\s\S]*ps\.Decay"):
        arguments.decay("adam", None, wrong)
    with pytest.raises(BadRequest, match=r"decay: not what is expected here: 0\.1[\s\S]*ps\.Decay"):
        arguments.decay("adam", 0.1, None)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="two words for the same"):
        arguments.decay("adam", ps.Decay(l2=0.1), 0.1)


def test_limits_of_gradients_in_others_words() -> None:
    assert arguments.clip(None, None) is None
    assert arguments.clip(None, ClipGradByGlobalNorm(2.0)) == ps.Clip(global_norm=2.0)
    assert arguments.clip(ClipGradByGlobalNorm(2.0), None) == ps.Clip(global_norm=2.0)  # type: ignore[arg-type]
    assert arguments.clip(None, ClipGradByValue(-1.0, 1.0)) == ps.Clip(value=1.0)
    assert arguments.clip(ps.Clip(norm=1.0), None) == ps.Clip(norm=1.0)
    with pytest.raises(
        BadRequest, match=r"grad_clip: not a limit of gradients: 1\.0[\s\S]*ps\.Clip\(global_norm=1\.0\)"
    ):
        arguments.clip(None, 1.0)
    with pytest.raises(BadRequest, match="grad_clip: not a limit"):
        arguments.clip(None, ClipGradByValue(-1.0, 2.0))
    with pytest.raises(BadRequest, match="two words for the same"):
        arguments.clip(ps.Clip(), ps.Clip())


def test_arguments_that_there_are_not_are_named_together() -> None:
    with pytest.raises(BadRequest) as caught:
        arguments.refuse("optimizer", {"lr": 0.1, "nonsense": 1}, arguments.OF_OPTIMIZERS)
    first, second = caught.value.problems
    assert (first.what, first.hint) == ("optimizer has no argument lr", "learning_rate=...")
    assert (second.what, second.hint) == ("optimizer has no argument nonsense", None)
    arguments.refuse("optimizer", {}, {})


@pytest.mark.parametrize("wrong", [0.1, None, object()])
def test_a_rule_that_is_none(wrong: object) -> None:
    with pytest.raises(BadRequest, match=r"rule: not a rule[\s\S]*ps\.Adam\(learning_rate=0\.001\)"):
        chosen_rule(wrong, None)  # type: ignore[arg-type]


def test_a_rule_by_its_class() -> None:
    assert chosen_rule(ps.Adam, 0.5) == ps.Adam(0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "hint"), [("lr", "learning_rate"), ("weight_decay", r"ps\.Decay"), ("grad_clip", r"ps\.Clip")]
)
def test_rules_name_the_fields_that_they_have(field: str, hint: str) -> None:
    with pytest.raises(TypeError, match=f"Adam has no field {field}: it has learning_rate, beta1.*{hint}"):
        ps.Adam(**{field: 0.1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "wrong", "said"),
    [
        ("init", 0.1, r"init: not what is expected here: 0\.1[\s\S]*ps\.Uniform"),
        ("clip", 1.0, r"clip: not what is expected here: 1\.0[\s\S]*ps\.Clip\(value"),
        ("decay", 1.0, r"decay: not what is expected here: 1\.0[\s\S]*ps\.Decay"),
        ("entry", 10, r"entry: not what is expected here: 10[\s\S]*ps\.Count"),
        ("rule", "adam", r"rule: not what is expected here: 'adam'"),
        ("dim", 16.0, r"dim: not an integer of 1 or more: 16\.0"),
        ("dim", "16", "dim: not an integer of 1 or more: '16'"),
        ("dim", 0, "dim: not an integer of 1 or more: 0"),
        ("seed", 0.5, r"seed: not an integer of 0 or more: 0\.5"),
        ("rule", ps.Sgd("0.1"), "Sgd: learning_rate is not a number that can be used: '0.1'"),  # type: ignore[arg-type]
        ("rule", ps.Sgd(math.nan), "Sgd: learning_rate is not a number that can be used: nan"),
        ("clip", ps.Clip(global_norm=1.0), "clip: global_norm is the optimizer's"),
    ],
)
def test_parts_of_a_table_that_are_none_are_named(part: str, wrong: object, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        specs.check(specs.SparseTable(**{"dim": 2, part: wrong}))  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    table = specs.SparseTable(dim=np.int64(2), rule=ps.Sgd(np.float32(0.5)))  # type: ignore[arg-type]
    assert '"learning_rate": 0.5' in specs.to_json(table)


def test_names_written_in_another_case() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'SGD': write ps\.Sgd"):
        ps.SGD  # noqa: B018
    with pytest.raises(AttributeError, match=r"AdamW.*decoupled"):
        ps.AdamW  # noqa: B018


def test_a_timeout_that_is_no_number() -> None:
    with pytest.raises(BadRequest, match=r"timeout_s: not a number of seconds: '3'.*UM-PS-007"):
        ps.init("sync", timeout_s="3")  # type: ignore[arg-type]

"""What a config says about learning: rules, schedules, clipping, and every mistake in them."""

from __future__ import annotations

import math

import pytest

from tests.support.train_helpers import LIBRARY, SINGLE, config, problems, small, warnings
from umiak.train.config import layouts, optimizers
from umiak.train.config.values import Learning, Schedule


def said(optimizer: str) -> layouts.Reading:
    text = SINGLE + f"hyper_parameters:\n  optimizer: {optimizer}\n"
    return layouts.read(text, source="c.yaml", directory=".", library=LIBRARY)


def learned(optimizer: str) -> Learning:
    reading = said(optimizer)
    assert reading.config is not None, reading.problems
    return reading.config.learning


def test_nothing_said_is_adam():
    text = SINGLE
    reading = layouts.read(text, source="c.yaml", directory=".", library=LIBRARY)
    assert reading.config is not None
    assert reading.config.learning == Learning(rule="adam")


def test_paddlerecs_words():
    assert learned("{class: SGD, learning_rate: 1e-1, strategy: async}") == Learning(
        rule="sgd", settings={"learning_rate": 0.1}
    )
    assert learned("{class: Adagrad, initial_accumulator_value: 0.5}").settings == {"initial": 0.5}
    assert learned("{class: momentum, momentum: 0.5, use_nesterov: true}").settings == {
        "momentum": 0.5,
        "nesterov": True,
    }
    assert learned("{class: adam, lazy_mode: true, clip_norm: 5, clip_value: 1}").clip_norm == 5


@pytest.mark.parametrize(
    ("optimizer", "what"),
    [
        ("{class: Adamm}", "unknown value: Adamm"),
        ("{class: adam, learning_rte: 1}", "unknown key: learning_rte"),
        ("{class: adam, learning_rate: fast}", "learning_rate must be a number"),
        ("{class: adam, learning_rate: 0}", "not above 0"),
        ("{class: adam, learning_rate: .inf}", "expected a finite number"),
        ("{class: adam, beta1: 1.5}", "not in [0, 1)"),
        ("{class: adam, schedule: {class: cosine}}", "steps is required by cosine and missing"),
        ("{class: adam, schedule: {class: cosine, steps: 0}}", "less than 1"),
        ("{class: adam, schedule: {class: sine}}", "unknown value: sine"),
        ("Adam", "optimizer must be a mapping"),
    ],
)
def test_mistakes_are_told_with_their_line(optimizer: str, what: str):
    (problem,) = said(optimizer).problems
    assert what in problem.what
    assert problem.where is not None
    assert problem.where.startswith(f"c.yaml:{SINGLE.count(chr(10)) + 2}:")


def test_what_a_rule_does_not_know_is_a_warning():
    reading = said("{class: sgd, beta1: 0.5, schedule: {class: step, steps: 5}}")
    assert reading.config is not None
    assert [warning.what for warning in reading.warnings] == [
        "optimizer: no effect: beta1",
        "schedule: no effect: steps",
    ]


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        (Schedule(), 1000, 1.0),
        (Schedule(kind="exponential", gamma=0.5, every=100), 250, 0.5**2.5),
        (Schedule(kind="step", gamma=0.5, every=100), 250, 0.25),
        (Schedule(kind="inverse_time", gamma=0.5, every=10), 20, 0.5),
        (Schedule(kind="polynomial", steps=100, end=0.5), 50, 0.75),
        (Schedule(kind="polynomial", steps=100, end=0.5), 500, 0.5),
        (Schedule(kind="cosine", steps=100), 50, 0.5),
        (Schedule(kind="cosine", steps=100), 0, 1.0),
        (Schedule(kind="cosine", steps=100, end=0.1), 100, 0.1),
        (Schedule(warmup_steps=9), 0, 0.1),
        (Schedule(warmup_steps=9), 9, 1.0),
        (Schedule(kind="step", gamma=0.5, every=10, warmup_steps=9), 19, 0.5),
    ],
)
def test_a_schedule_is_a_function_of_the_step(schedule: Schedule, step: int, expected: float):
    assert math.isclose(optimizers.factor(schedule, step), expected)


def test_paddles_names_of_schedules():
    assert learned("{class: adam, schedule: {class: CosineAnnealingDecay, steps: 7}}").schedule.kind == "cosine"


@pytest.mark.parametrize(
    ("said", "rule", "l2", "decoupled"),
    [
        ("{class: Adam}", "adam", 0.0, 0.0),
        ("{class: Adam, weight_decay: 0.02}", "adam", 0.02, 0.0),
        ("{class: SGD, decoupled_weight_decay: 0.02}", "sgd", 0.0, 0.02),
        ("{class: AdamW}", "adam", 0.0, 0.01),
        ("{class: AdamW, weight_decay: 0.05, beta1: 0.8}", "adam", 0.0, 0.05),
    ],
)
def test_weight_decay(said: str, rule: str, l2: float, decoupled: float) -> None:
    found = config(f"{small()}hyper_parameters: {{optimizer: {said}}}\n").learning
    assert (found.rule, found.weight_decay, found.decoupled_weight_decay) == (rule, l2, decoupled)


def test_weight_decay_that_makes_no_sense() -> None:
    def text(said: str) -> str:
        return f"{small()}hyper_parameters: {{optimizer: {said}}}\n"

    assert [
        each.split(" ", 2)[2] for each in problems(text("{class: AdamW, weight_decay: 1, decoupled_weight_decay: 1}"))
    ] == ["optimizer: weight_decay and decoupled_weight_decay: with adamw they are the same"]
    assert problems(text("{class: Adam, weight_decay: -1}"))
    assert [each.split(" ", 2)[2] for each in warnings(text("{class: ftrl, weight_decay: 1}"))] == [
        "optimizer: no effect: weight_decay"
    ]


def test_rmsprop_and_clipping_by_the_global_norm() -> None:
    said = "{class: RMSProp, learning_rate: 0.1, rho: 0.9, momentum: 0.5, centered: true, clip_global_norm: 2}"
    found = config(f"{small()}hyper_parameters: {{optimizer: {said}}}\n").learning
    assert found.rule == "rmsprop"
    assert found.settings == {"learning_rate": 0.1, "rho": 0.9, "momentum": 0.5, "centered": True}
    assert found.clip_global_norm == 2
    for wrong in ("{class: RMSProp, rho: 1}", "{class: RMSProp, clip_global_norm: 0}"):
        assert problems(f"{small()}hyper_parameters: {{optimizer: {wrong}}}\n")

"""What a config says about embedding tables that count shows and clicks, and every mistake in it."""

from __future__ import annotations

import pytest

from tests.support.train_helpers import LIBRARY, SINGLE
from umiak.train.config import layouts
from umiak.train.config.values import RowRule, TableParameters

SAMPLE = """
table_parameters:
  embedding:
    table_class: "MemorySparseTable"
    shard_num: 10
    accessor:
      accessor_class: "SparseAccessor"
      fea_dim: 11
      embedx_dim: 8
      embedx_threshold: 10
      embed_sgd_param:
        name: "SparseAdaGradSGDRule"
        adagrad: {learning_rate: 0.05, initial_g2sum: 3.0, initial_range: 0.0001, weight_bounds: [-10.0, 10.0]}
      embedx_sgd_param:
        name: "SparseAdaGradSGDRule"
        adagrad: {learning_rate: 0.05, initial_g2sum: 3.0, initial_range: 0.0001, weight_bounds: [-10.0, 10.0]}
      ctr_accessor_param:
        nonclk_coeff: 0.1
        click_coeff: 1.0
        base_threshold: 1.5
        delta_threshold: 0.25
        delta_keep_days: 16.0
        show_click_decay_rate: 0.98
        delete_threshold: 0.8
        delete_after_unseen_days: 30.0
        ssd_unseenday_threshold: 1
"""


def read(text: str) -> layouts.Reading:
    return layouts.read(SINGLE + text, source="c.yaml", directory=".", library=LIBRARY)


def said(accessor: str, more: str = "") -> layouts.Reading:
    return read(f"table_parameters:\n  embedding: {{accessor: {accessor}}}\n{more}")


def table(accessor: str) -> TableParameters:
    reading = said(accessor)
    assert reading.config is not None, reading.problems
    return reading.config.table_parameters["embedding"]


def test_the_sample_of_newer_paddlerec() -> None:
    reading = read(SAMPLE)
    assert reading.problems == reading.warnings == ()
    assert reading.config is not None
    rule = RowRule(rule="adagrad_shared", settings={"learning_rate": 0.05, "initial_g2sum": 3.0})
    assert reading.config.table_parameters == {"embedding": TableParameters(embedx_dim=8, embed=rule, embedx=rule)}


def test_what_is_not_said_is_as_in_the_sample() -> None:
    assert table("{}") == TableParameters()
    reading = read("table_parameters: {embedding: {}, wide: {accessor: {embedx_dim: 4}}}\n")
    assert reading.config is not None
    assert reading.config.table_parameters == {"embedding": TableParameters(), "wide": TableParameters(embedx_dim=4)}


def test_rules_by_both_of_their_names() -> None:
    made = table(
        "{embed_sgd_param: {name: naive, naive: {learning_rate: 1, initial_range: 0, weight_bounds: [-1, 1]}}, "
        "embedx_sgd_param: {name: SparseAdamSGDRule, adam: {beta1_decay_rate: 0.5, ada_epsilon: 1e-6}}}"
    )
    assert made.embed == RowRule(rule="sgd", settings={"learning_rate": 1.0}, initial_range=0.0)
    assert made.embedx == RowRule(rule="adam_row", settings={"beta1": 0.5, "epsilon": 1e-6})
    assert made.bound == 1.0
    assert table("{embed_sgd_param: {name: std-adagrad}}").embed.rule == "adagrad_scaled"
    assert table("{embed_sgd_param: {name: StdAdaGradSGDRule, adagrad: {initial_g2sum: 1}}}").embed.settings == {
        "learning_rate": 0.05,
        "initial_g2sum": 1.0,
    }


@pytest.mark.parametrize(
    ("accessor", "what", "hint"),
    [
        ("{embedx_dimm: 8}", "table embedding: accessor: unknown key: embedx_dimm", "did you mean `embedx_dim`?"),
        ("{embedx_dim: 0}", "less than 1", None),
        ("{embedx_threshold: much}", "embedx_threshold must be a number", None),
        ("{accessor_class: CtrDymfAccessor}", "unknown value: CtrDymfAccessor", None),
        ("{ctr_accessor_param: {click_coef: 1}}", "unknown key: click_coef", "did you mean `click_coeff`?"),
        ("{ctr_accessor_param: 5}", "ctr_accessor_param must be a mapping", None),
        ("{ctr_accessor_param: {show_click_decay_rate: 1.5}}", "would grow every day", None),
        ("{ctr_accessor_param: {delete_after_unseen_days: -1}}", "less than 0", None),
        ("{embed_sgd_param: {name: adagrd}}", "unknown value: adagrd", None),
        ("{embed_sgd_param: {name: SparseSharedAdamSGDRule}}", "not supported: SparseSharedAdamSGDRule", None),
        ("{embed_sgd_param: {adagrad: {lr: 1}}}", "adagrad: unknown key: lr", None),
        ("{embed_sgd_param: {adagrad: {initial_g2sum: 0}}}", "not above 0", None),
        ("{embed_sgd_param: {name: adam, adam: {beta2_decay_rate: 1}}}", "not below 1", None),
        ("{embed_sgd_param: {adagrad: {weight_bounds: 10}}}", "must be two numbers, as in [-10, 10]", None),
        ("{embed_sgd_param: {adagrad: {weight_bounds: [-1, 10]}}}", "expected symmetric bounds, as in [-10, 10]", None),
        (
            "{embed_sgd_param: {adagrad: {weight_bounds: [-1, 1]}}, embedx_sgd_param: {adagrad: {weight_bounds: [-2, 2]}}}",
            "differs from embed_sgd_param",
            None,
        ),
    ],
)
def test_mistakes_are_told_with_their_line(accessor: str, what: str, hint: str | None) -> None:
    (problem,) = said(accessor).problems
    assert what in problem.what
    assert hint is None or problem.hint == hint
    assert problem.where is not None
    assert problem.where.startswith(f"c.yaml:{SINGLE.count(chr(10)) + 2}:")


def test_settings_without_the_name_of_a_table() -> None:
    (problem,) = read("table_parameters: {embedx_dim: 8}\n").problems
    assert problem.what == "table_parameters: embedx_dim must be a mapping, not the number 8"
    assert problem.why == "its keys are table names, each with a mapping below it"


def test_an_ssd_is_not_pretended() -> None:
    (problem,) = read("table_parameters: {embedding: {table_class: SSDSparseTable}}\n").problems
    assert problem.what == "table embedding: table_class: not supported: SSDSparseTable"


def test_what_a_rule_does_not_know_is_a_warning() -> None:
    reading = said("{embed_sgd_param: {name: naive, naive: {initial_g2sum: 3}, adam: {learning_rate: 1}}}")
    assert sorted(warning.what for warning in reading.warnings) == [
        "table embedding: embed_sgd_param: no effect: adam",
        "table embedding: naive: no effect: initial_g2sum",
    ]


def test_a_schedule_and_two_learning_rates() -> None:
    rates = "{embed_sgd_param: {adagrad: {learning_rate: 0.1}}}"
    schedule = "hyper_parameters: {optimizer: {schedule: {class: cosine, steps: 9}}}\n"
    (problem,) = said(rates, schedule).problems
    assert problem.what == "table embedding: two learning rates, 0.1 and 0.05, and a schedule"
    assert said(rates).problems == ()
    assert said("{}", schedule).problems == ()

"""Of which metrics less is better."""

from __future__ import annotations

import pytest

from umiak.schema.metric_names import is_less_better


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("loss", True),
        ("log_loss", True),
        ("train/loss", True),
        ("evaluated/log_loss", True),
        ("normalised_entropy", True),
        ("rmse", True),
        ("mae", True),
        ("auc", False),
        ("ndcg@10", False),
        ("evaluated/auc", False),
        ("train/hit_rate.10", False),
        ("", False),
    ],
)
def test_which_numbers_are_better(metric: str, expected: bool) -> None:
    assert is_less_better(metric) is expected

"""Metric sets: added vectors are the one that saw everything."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from umiak.train.metrics import Auc, LogLoss, Mean, PosNegRatio
from umiak.train.metrics.metric_set import MetricSet

scores = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1), st.sampled_from([math.nan, -math.inf, 1.5]))
samples = st.lists(st.tuples(scores, st.sampled_from([0, 1, 0, 1, 7]), st.integers(0, 3)), min_size=1, max_size=20)


def of_all() -> MetricSet:
    return MetricSet({"auc": Auc(bins=16), "log_loss": LogLoss(), "pn": PosNegRatio(), "loss": Mean()})


@given(st.lists(st.tuples(samples, st.integers(0, 2), st.booleans()), max_size=8))
def test_added_vectors_are_the_board_that_saw_everything(batches: list) -> None:
    trainers, alone = [of_all() for _ in range(3)], of_all()
    for rows, who, is_marked in batches:
        predicted = np.array([row[0] for row in rows])
        for metrics in (trainers[who], alone):
            metrics.update(predicted, [row[1] for row in rows], groups=[row[2] for row in rows], losses=predicted)
        if is_marked:
            for metrics in (*trainers, alone):
                metrics.start_window()
    total = np.sum([trainer.state() for trainer in trainers], axis=0)
    assert np.allclose(total, alone.state(), rtol=1e-12, atol=1e-12)
    told, expected = trainers[0].readings(total), alone.readings()
    assert told.problems == expected.problems
    assert told.reasons == expected.reasons
    for found, wanted in ((told.recent, expected.recent), (told.epoch, expected.epoch)):
        assert list(found) == list(wanted)
        assert np.allclose(list(found.values()), list(wanted.values()), rtol=1e-9, equal_nan=True)
    again = of_all()
    again.load(alone.state(), alone.layout.text)
    assert (again.state() == alone.state()).all()

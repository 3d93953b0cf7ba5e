"""Boards: added vectors are the board that saw everything, whatever the carrier adds with."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umiak.core.problem import UmiakError
from umiak.train.metrics import Auc, LogLoss, Mean, PosNegRatio
from umiak.train.metrics.board import Board
from umiak.train.metrics.narrow import MOST, narrow, wide

scores = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1), st.sampled_from([math.nan, -math.inf, 1.5]))
samples = st.lists(st.tuples(scores, st.sampled_from([0, 1, 0, 1, 7]), st.integers(0, 3)), min_size=1, max_size=20)


def of_all() -> Board:
    return Board({"auc": Auc(bins=16), "log_loss": LogLoss(), "pn": PosNegRatio(), "loss": Mean()})


@given(st.lists(st.tuples(samples, st.integers(0, 2), st.booleans()), max_size=8))
def test_added_vectors_are_the_board_that_saw_everything(batches: list) -> None:
    trainers, alone = [of_all() for _ in range(3)], of_all()
    for rows, who, is_marked in batches:
        predicted = np.array([row[0] for row in rows])
        for board in (trainers[who], alone):
            board.update(predicted, [row[1] for row in rows], groups=[row[2] for row in rows], losses=predicted)
        if is_marked:
            for board in (*trainers, alone):
                board.mark()
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


@given(st.lists(st.lists(st.integers(-(2**48) + 1, 2**48 - 1), min_size=3, max_size=3), min_size=1, max_size=20))
def test_counts_survive_a_carrier_that_adds_in_single_precision(rows: list) -> None:
    total = np.zeros(18, np.float32)
    for row in rows:
        assert (wide(narrow(np.array(row, np.float64))) == row).all()
        total += narrow(np.array(row, np.float64))
    assert wide(total).tolist() == [sum(column) for column in zip(*rows, strict=True)]


@given(st.lists(st.floats(-(2.0**40), 2.0**40), min_size=1, max_size=20))
def test_sums_survive_it_nearly(rows: list) -> None:
    total = np.zeros(6, np.float32)
    for number in rows:
        total += narrow(np.array([number]))
    allowed = len(rows) * 2.0**-24 + 2.0**-50 * max(abs(number) for number in rows)
    assert abs(wide(total)[0] - math.fsum(rows)) <= allowed


def test_as_many_trainers_as_are_promised_add_up_without_rounding() -> None:
    counts = np.array([2.0**48 - 1, 16_777_217.0, 1.0, 4095.0])
    total = np.zeros(24, np.float32)
    for _ in range(MOST):
        total += narrow(counts)
    assert (wide(total) == MOST * counts).all()
    naive = np.zeros(4, np.float32)
    for _ in range(MOST):
        naive += counts.astype(np.float32)
    assert naive[1] != MOST * counts[1]


@pytest.mark.parametrize("number", [2.0**48, -(2.0**48), math.nan, math.inf])
def test_what_does_not_fit_into_pieces_is_refused(number: float) -> None:
    with pytest.raises(UmiakError, match="can't be cut"):
        narrow(np.array([1.0, number]))

"""Metrics of `paddlerec.core.metrics`: each adds its state up in variables of the program, and says what a state stands for. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.problem import UmiakError
from umiak.fluid.layers import basics, rows
from umiak.fluid.record import naming
from umiak.fluid.record.program import Variable
from umiak.fluid.record.recording import apply, create_state
from umiak.fluid.record.sites import user_line
from umiak.train.engines.modelbase.metric import ProgramMetric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class ProgramAuc(ProgramMetric):
    """The area under the curve."""

    def __init__(
        self,
        input: Any,  # noqa: A002 - fluid's word
        label: Any,
        curve: str = "ROC",
        num_thresholds: int = 2**12 - 1,
        topk: int = 1,
        slide_steps: int = 1,
    ) -> None:
        _check(type(self).__name__.removeprefix("Program"), input=input, label=label)
        area, of_batch, states = basics.auc(input, label, curve, num_thresholds, topk, slide_steps)
        self._global_metric_state_vars = {
            "stat_pos": (states[2].name, "float32"),
            "stat_neg": (states[3].name, "float32"),
        }
        self.metrics = {"AUC": area, "BATCH_AUC": of_batch}

    def get_result(self) -> dict[str, Any]:
        return self.metrics

    def values_of(self, states: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        return {"AUC": area_under(states["stat_pos"], states["stat_neg"])}


class ProgramRecallK(ProgramMetric):
    """How often the label is among the best ``k``."""

    def __init__(self, input: Any, label: Any, k: int = 20) -> None:  # noqa: A002 - fluid's word
        _check(type(self).__name__.removeprefix("Program"), input=input, label=label)
        self.k = k
        part = basics.accuracy(input, label, k)
        ones = rows.call("fill_constant_batch_size_like", label, [-1, 1], "float32", 1.0)
        count = rows.call("reduce_sum", ones)
        found, seen = _added_up("pos_cnt", count * part), _added_up("ins_cnt", count)
        self._global_metric_state_vars = {"ins_cnt": (seen.name, "float32"), "pos_cnt": (found.name, "float32")}
        self.metrics = {"InsCnt": seen, "RecallCnt": found, self._name: found / seen}

    @property
    def _name(self) -> str:
        return f"Acc(Recall@{self.k})"

    def get_result(self) -> dict[str, Any]:
        return self.metrics

    def values_of(self, states: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        seen, found = float(states["ins_cnt"].sum()), float(states["pos_cnt"].sum())
        return {"InsCnt": seen, "RecallCnt": found, self._name: found / seen if seen else 0.0}


class ProgramPosNegRatio(ProgramMetric):
    """How often a score that should be higher is, over how often it is not."""

    def __init__(self, pos_score: Any, neg_score: Any) -> None:
        _check(type(self).__name__.removeprefix("Program"), pos_score=pos_score, neg_score=neg_score)
        right = rows.call("reduce_sum", rows.call("cast", neg_score < pos_score, "float32"))
        wrong = rows.call("reduce_sum", rows.call("cast", pos_score <= neg_score, "float32"))
        rights, wrongs = _added_up("right_cnt", right), _added_up("wrong_cnt", wrong)
        self._global_metric_state_vars = {"right_cnt": (rights.name, "float32"), "wrong_cnt": (wrongs.name, "float32")}
        self.metrics = {"WrongCnt": wrongs, "RightCnt": rights, "PN": (rights + 1.0) / (wrongs + 1.0)}

    def get_result(self) -> dict[str, Any]:
        return self.metrics

    def values_of(self, states: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        right, wrong = float(states["right_cnt"].sum()), float(states["wrong_cnt"].sum())
        return {"WrongCnt": wrong, "RightCnt": right, "PN": (right + 1) / (wrong + 1)}


class ProgramPrecisionRecall(ProgramMetric):
    """Precision, recall and their mean, of each class alike (macro) and of all samples alike (micro)."""

    NAMES = ("macro_precision", "macro_recall", "macro_f1", "micro_precision", "micro_recall", "micro_f1")

    def __init__(self, input: Any, label: Any, class_num: int) -> None:  # noqa: A002 - fluid's word
        _check(type(self).__name__.removeprefix("Program"), input=input, label=label)
        self.num_cls = class_num
        found = rows.call("reshape", rows.call("argmax", input, 1), [-1, 1])
        guessed = rows.call("cast", rows.call("one_hot", found, class_num), "float32")
        wanted = rows.call("cast", rows.call("one_hot", rows.call("cast", label, "int64"), class_num), "float32")
        cells = [guessed * wanted, guessed * (1.0 - wanted), (1.0 - guessed) * (1.0 - wanted), (1.0 - guessed) * wanted]
        counts = rows.call("stack", [rows.call("reduce_sum", each, 0) for each in cells], 1)
        states = _added_up("states_info", counts, [class_num, 4])
        self._global_metric_state_vars = {"states_info": (states.name, "float32")}
        self.metrics = {"[TP FP TN FN]": states}

    def get_result(self) -> dict[str, Any]:
        return self.metrics

    def values_of(self, states: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        counts = states["states_info"].reshape(self.num_cls, 4).astype(np.float64)
        right, wrong, missed = counts[:, 0], counts[:, 1], counts[:, 3]
        precision, recall = _ratio(right, wrong).mean(), _ratio(right, missed).mean()
        all_precision, all_recall = _ratio(right.sum(), wrong.sum()), _ratio(right.sum(), missed.sum())
        numbers = (precision, recall, _f1(precision, recall), all_precision, all_recall, _f1(all_precision, all_recall))
        return {f"precision_recall_f1.{name}": float(each) for name, each in zip(self.NAMES, numbers, strict=True)}


METRICS: dict[str, type[ProgramMetric]] = {
    "AUC": ProgramAuc,
    "PosNegRatio": ProgramPosNegRatio,
    "PrecisionRecall": ProgramPrecisionRecall,
    "RecallK": ProgramRecallK,
}
"""By the names that models import."""


def area_under(positive: NDArray[Any], negative: NDArray[Any]) -> float:
    """From two histograms: trapezoids, from the highest prediction down; 0 where there is one class only, as `layers.auc` has it."""
    hits = np.concatenate([[0], np.cumsum(np.asarray(positive, np.float64).reshape(-1)[::-1])])
    misses = np.concatenate([[0], np.cumsum(np.asarray(negative, np.float64).reshape(-1)[::-1])])
    whole = hits[-1] * misses[-1]
    return float(np.sum(np.diff(misses) * (hits[1:] + hits[:-1]) / 2) / whole) if whole else 0.0


def _added_up(name: str, of_batch: Any, shape: Any = (1,)) -> Any:
    """A variable that has the sum over all batches."""
    state = create_state(naming.generate(name), list(shape), "float32", 0.0)
    apply("assign", {"input": state + rows.call("reshape", of_batch, list(shape))}, out=state)
    return state


def _ratio(right: Any, others: Any) -> Any:
    """1 where there is nothing."""
    return np.where(right + others > 0, right / np.maximum(right + others, 1e-30), 1.0)


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _check(kind: str, **given: Any) -> None:
    for name, each in given.items():
        if not isinstance(each, Variable):
            what = (
                f"paddlerec.core.metrics.{kind}: {name} is a {type(each).__name__}, expected a variable of the program"
            )
            raise UmiakError.of("UM-TRAIN-593", what, where=user_line())

"""A minimized program on tables of a session learns as it does in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import Programs, fluid, programs
from umiak import ps
from umiak.core.problem import BadRequest
from umiak.fluid.distributed import rules, tables
from umiak.fluid.distributed.trained import TrainedProgram
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session

CLIPS = {
    "none": None,
    "value": fluid.clip.GradientClipByValue(0.05),
    "uneven": fluid.clip.GradientClipByValue(0.05, -0.02),
    "norm": fluid.clip.GradientClipByNorm(0.05),
    "global": fluid.clip.GradientClipByGlobalNorm(0.1),
}
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda rate, clip: fluid.optimizer.SGD(rate, grad_clip=clip),
    "adam": lambda rate, clip: fluid.optimizer.Adam(rate, lazy_mode=True, grad_clip=clip),
    "adagrad": lambda rate, clip: fluid.optimizer.Adagrad(rate, initial_accumulator_value=0.2, grad_clip=clip),
    "momentum": lambda rate, clip: fluid.optimizer.Momentum(rate, 0.9, use_nesterov=True, grad_clip=clip),
    "rmsprop": lambda rate, clip: fluid.optimizer.RMSProp(rate, momentum=0.5, centered=True, grad_clip=clip),
    "ftrl": lambda rate, clip: fluid.optimizer.Ftrl(rate, l1=0.01, l2=0.02, grad_clip=clip),
}
MOVES_ALL = ("momentum", "rmsprop")
CASES = [
    *((name, "none", True) for name in OPTIMIZERS),
    *(("sgd", clip, False) for clip in CLIPS),
    *(("adam", clip, False) for clip in ("value", "norm", "global")),
]


def regression(optimizer: Any, *, is_sparse: bool = True, decays: bool = True, padding: int | None = 0) -> Any:
    """Two embeddings, one of them with computed ids, batch_norm, and a loss that is minimized."""
    ids, wanted = fluid.layers.data("ids", [3], dtype="int64"), fluid.layers.data("wanted", [1])
    first = fluid.layers.slice(ids, [1], [0], [2])
    attribute = fluid.ParamAttr(name="large", learning_rate=2.0)
    large = fluid.layers.embedding(ids, [10, 4], is_sparse=is_sparse, padding_idx=padding, param_attr=attribute)
    small = fluid.layers.embedding(first, [10, 4], is_sparse=is_sparse, param_attr=fluid.ParamAttr(name="small"))
    rows = [fluid.layers.reshape(large, [-1, 12]), fluid.layers.reshape(small, [-1, 8])]
    decay = fluid.regularizer.L2Decay(0.1) if decays else None
    hidden = fluid.layers.fc(fluid.layers.concat(rows, 1), 5, act="tanh", param_attr=fluid.ParamAttr(regularizer=decay))
    given = fluid.layers.fc(fluid.layers.batch_norm(hidden), 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(given, wanted))
    optimizer.minimize(loss)
    return loss


def batches(count: int = 5) -> list[dict[str, Any]]:
    chance = np.random.default_rng(3)
    return [
        {"ids": chance.integers(0, 10, (6, 3)), "wanted": chance.normal(size=(6, 1)).astype("f4")} for _ in range(count)
    ]


def alone() -> Session:
    return Session(PsSeat(), ps.Sync(), SessionOptions())


def trained_alone(made: Programs) -> TrainedProgram:
    return TrainedProgram(made.main, made.startup, alone())


@pytest.mark.parametrize(("name", "clip", "follows"), CASES)
def test_steps_are_those_of_one_process(name: str, clip: str, follows: bool) -> None:
    losses, after = [], []
    feeds = batches()
    for on_tables in (False, True):
        with programs() as made:
            rate = fluid.layers.exponential_decay(0.1, 2, 0.5) if follows else 0.1
            optimizer = OPTIMIZERS[name](rate, CLIPS[clip])
            # Ftrl has penalties of its own, and sets a row that is used to zero even if its gradient is.
            is_ftrl = name == "ftrl"
            loss = regression(
                optimizer, is_sparse=name not in MOVES_ALL, decays=not is_ftrl, padding=None if is_ftrl else 0
            )
            names = [each.name for each in made.main.all_parameters()]
            if on_tables:
                trained = trained_alone(made)
                assert [*trained.tables] == ([] if name in MOVES_ALL or clip == "uneven" else ["large", "small"])
                losses.append([trained.step(feed, [loss])[0] for feed in feeds])
                after.append(trained.values(names))
            else:
                made.start()
                losses.append([made.run(feed, [loss])[0] for feed in feeds])
                scope = fluid.global_scope()
                after.append({each: np.asarray(scope.find_var(each).get_tensor()) for each in names})
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-5, atol=2e-5)
    for each in after[0]:
        np.testing.assert_allclose(after[0][each], after[1][each], rtol=2e-4, atol=2e-5, err_msg=each)


def test_reading_creates_no_rows_and_learns_nothing() -> None:
    with programs() as made:
        loss = regression(fluid.optimizer.SGD(0.1))
        test = made.main.clone(for_test=True)
        trained = trained_alone(made)
        feed = batches(1)[0]
        before = trained.read(feed, [loss], program=test)[0]
        assert trained.read(feed, [loss])[0] == pytest.approx(before)
        trained.step(feed, [loss])
        assert trained.read(feed, [loss], program=test)[0] < before
        fluid.executor.global_scope().find_var("small")
        assert "small" not in fluid.global_scope().tensors


def test_saved_and_loaded_it_goes_on_as_if_nothing_had_happened(tmp_path: Any) -> None:
    feeds = batches(4)
    losses = []
    for restarts in (False, True):
        with programs() as made:
            loss = regression(fluid.optimizer.Adam(fluid.layers.exponential_decay(0.1, 2, 0.5), lazy_mode=True))
            trained = trained_alone(made)
            if restarts:
                trained.load(str(tmp_path / "saved"))
            else:
                [trained.step(feed) for feed in feeds[:2]]
                trained.save(str(tmp_path / "saved"))
            losses.append([trained.step(feed, [loss])[0] for feed in feeds[2:]])
    assert losses[0] == losses[1]


def test_what_servers_cannot_do_is_named_all_at_once() -> None:
    with programs() as made:
        regression(fluid.optimizer.Adadelta(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)))
        with pytest.raises(BadRequest) as caught:
            trained_alone(made)
    assert {each.code for each in caught.value.problems} == {"UM-FLUID-010"}
    assert "no rule for the optimizer adadelta" in str(caught.value)


def test_norms_of_a_mean_are_refused_where_gradients_are_averaged() -> None:
    with programs() as made:
        regression(fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)))
        assert rules.learning_of(made.main, made.startup, averages=False).problems == ()
        (problem,) = rules.learning_of(made.main, made.startup, averages=True).problems
        assert "GradientClipByGlobalNorm in sync with several trainers" in problem.what


def test_an_embedding_that_others_read_stays_dense_and_says_why() -> None:
    with programs() as made:
        ids = fluid.layers.data("ids", [1], dtype="int64")
        rows = fluid.layers.embedding(ids, [10, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="shared"))
        weight = made.main.global_block().var("shared")
        logits = fluid.layers.matmul(rows, weight, transpose_y=True)
        loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.softmax(logits), ids))
        fluid.optimizer.SGD(0.1).minimize(loss)
        learning = rules.learning_of(made.main, made.startup, averages=False)
        assert tables.survey(made.main, made.startup, learning).kept == {"shared": "matmul reads it as well"}
        trained = trained_alone(made)
        first, *_, last = [trained.step({"ids": [[1], [2]]}, [loss])[0] for _ in range(5)]
        assert last < first


RATES: dict[str, Any] = {
    "constant": lambda: 0.25,
    "exponential": lambda: fluid.layers.exponential_decay(0.1, 2, 0.5),
    "noam": lambda: fluid.layers.noam_decay(16, 10),
    "piecewise": lambda: fluid.layers.piecewise_decay([2, 3], [0.5, 0.25, 0.125]),
    "warm": lambda: fluid.layers.linear_lr_warmup(0.5, 4, 0.125, 0.5),
    "from nothing": lambda: fluid.layers.linear_lr_warmup(fluid.layers.noam_decay(16, 10), 2, 0.0, 0.5),
}


@pytest.mark.parametrize("kind", RATES)
def test_servers_begin_with_the_rate_of_the_first_step(kind: str) -> None:
    """Another trainer may be faster than the first one, which says rates: with a wrong one its first gradients would ruin everything."""
    with programs() as made:
        regression(fluid.optimizer.SGD(RATES[kind]()))
        learning = rules.learning_of(made.main, made.startup, averages=False)
        begins = rules.first_rate(made.main, made.startup, learning.rates[0])
        made.start()
        if learning.rates[0] in [name for each in made.main.global_block().ops for name in each.outputs]:
            (said,) = made.run(batches(1)[0], [learning.rates[0]])
        else:
            said = np.asarray(fluid.global_scope().find_var(learning.rates[0]).get_tensor())
        assert begins == pytest.approx(float(said[0]), rel=1e-6, abs=1e-9)
        trained = trained_alone(made)
        assert trained.tables["small"].spec.rule.learning_rate == pytest.approx(begins)  # type: ignore[union-attr]

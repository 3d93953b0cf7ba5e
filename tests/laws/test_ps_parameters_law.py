"""A law of plain Paddle models on tables: whatever a model does with its parameters, each step leaves them as Paddle does.

Models are generated: frozen, tied, unused, now and then used, unfrozen and frozen later, pre-trained, decayed, clipped parameters, buffers; dense and
sparse embeddings; several optimizers. Each is trained by a plain loop, alone, and with one and two servers in sync, and compared after every step.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests import support
from tests.ps_cluster import Cluster
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Sync

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]

CASES = 24
STEPS = 7
BATCH = 12
ROWS, DIM, HIDDEN = 23, 4, 6

LOCAL = ("sgd", "adagrad", "lazy adam")
"""Optimizers that move only the rows of a batch, so that sparse embeddings learn on servers as they do in Paddle."""
OTHERS = ("momentum", "nesterov", "adam", "adamw", "rmsprop")
PARAMETERS = ("first", "second", "fc", "norm", "branch", "head")


@dataclasses.dataclass(frozen=True)
class Case:
    """One model and how it is trained."""

    optimizer: str
    decay: str
    clip: str
    is_sparse: tuple[bool, bool]
    padding: int | None
    is_tied: bool
    """Whether the second embedding has the weight of the first."""
    is_output_tied: bool
    """Whether the weight of the second embedding is used past its layer as well."""
    pretrained: tuple[str, ...]
    frozen: tuple[str, ...]
    """When training begins."""
    changes: tuple[tuple[int, str, bool], ...]
    """Step, layer, whether it is frozen from then on."""
    branch: tuple[bool, ...]
    """In which steps the branch is used."""
    own_rate: float
    own_decay: bool
    unclipped: bool
    sets_to_zero: bool
    seed: int

    @classmethod
    def drawn(cls, chance: random.Random) -> Case:
        optimizer = chance.choice(LOCAL + OTHERS)
        is_local = optimizer in LOCAL
        sparse = (is_local and chance.random() < 0.6, is_local and chance.random() < 0.6)
        is_tied = chance.random() < 0.3
        frozen = tuple(name for name in PARAMETERS if chance.random() < 0.25)
        changes = [(chance.randrange(1, STEPS), chance.choice(PARAMETERS), chance.random() < 0.5) for _ in range(3)]
        unfrozen = [(chance.randrange(1, STEPS), name, False) for name in frozen if chance.random() < 0.6]
        # Weight decay moves all rows of a sparse embedding, which is then learned lazily on servers.
        decays = ("", "l1", "l2") if not any(sparse) else ("",)
        return cls(
            optimizer=optimizer,
            decay=chance.choice(decays),
            # Paddle can't clip the numbers of sparse gradients.
            clip=chance.choice(("", "", "norm", "global", *(() if any(sparse) else ("value", "one-sided")))),
            is_sparse=(sparse[0], sparse[0] if is_tied else sparse[1]),
            padding=chance.choice((None, 0, 3)),
            is_tied=is_tied,
            is_output_tied=chance.random() < 0.3,
            pretrained=tuple(name for name in ("first", "second", "head") if chance.random() < 0.3),
            frozen=frozen,
            changes=tuple(sorted([*changes, *unfrozen], key=lambda each: each[0])),
            branch=tuple(chance.random() < 0.5 for _ in range(STEPS)),
            own_rate=chance.choice((1.0, 1.0, 0.5)),
            own_decay=not any(sparse) and chance.random() < 0.3,
            unclipped=chance.random() < 0.3,
            sets_to_zero=chance.random() < 0.7,
            seed=chance.randrange(1 << 30),
        )


def made(paddle: Any, case: Case, seed: int | None = None) -> Any:
    """The model of a case; with another seed, one of the same form."""
    nn = paddle.nn

    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            attr = paddle.ParamAttr(
                learning_rate=case.own_rate,
                regularizer=paddle.regularizer.L2Decay(0.05) if case.own_decay else None,
                need_clip=not case.unclipped,
            )
            self.first = nn.Embedding(ROWS, DIM, sparse=case.is_sparse[0], padding_idx=case.padding)
            self.second = nn.Embedding(ROWS, DIM, sparse=case.is_sparse[1])
            if case.is_tied:
                self.second.weight = self.first.weight
            # A bias before a normalization has gradients of nothing but rounding, which Adam makes steps of.
            self.fc = nn.Linear(2 * DIM, HIDDEN, weight_attr=attr, bias_attr=False)
            self.norm = nn.BatchNorm1D(HIDDEN)
            self.branch = nn.Linear(HIDDEN, HIDDEN)
            self.head = nn.Linear(HIDDEN, 1)
            self.unused = nn.Linear(3, 2)

        def forward(self, ids: Any, uses_branch: bool) -> Any:
            hidden = self.fc(paddle.concat([self.first(ids[:, 0]), self.second(ids[:, 1])], axis=1))
            hidden = nn.functional.relu(self.norm(hidden))
            if uses_branch:
                hidden = hidden + self.branch(hidden)
            out = self.head(hidden)
            if case.is_output_tied:
                out = out + 0.1 * self.second.weight[:5].sum()
            return out

    paddle.seed(case.seed if seed is None else seed)
    model = Net()
    numbers = np.random.default_rng(case.seed if seed is None else seed)
    for name in case.pretrained:
        weight = getattr(model, name).weight
        weight.set_value(numbers.normal(0.0, 0.3, weight.shape).astype(np.float32))
    for name in case.frozen:
        freeze(model, name, is_frozen=True)
    return model


def freeze(model: Any, name: str, *, is_frozen: bool) -> None:
    for parameter in getattr(model, name).parameters():
        parameter.stop_gradient = is_frozen


def optimizer_of(paddle: Any, case: Case, model: Any) -> Any:
    nn, learns = paddle.nn, paddle.optimizer
    clip = {
        "": None,
        "value": nn.ClipGradByValue(0.05),
        "one-sided": nn.ClipGradByValue(0.08, -0.02),
        "norm": nn.ClipGradByNorm(0.2),
        "global": nn.ClipGradByGlobalNorm(0.3),
    }[case.clip]
    decay = {"": None, "l1": paddle.regularizer.L1Decay(0.02), "l2": 0.05}[case.decay]
    common: dict[str, Any] = {"parameters": model.parameters(), "grad_clip": clip, "weight_decay": decay}
    match case.optimizer:
        case "sgd":
            return learns.SGD(0.1, **common)
        case "adagrad":
            return learns.Adagrad(0.05, **common)
        case "lazy adam":
            return learns.Adam(0.01, lazy_mode=True, **common)
        case "momentum":
            return learns.Momentum(0.05, 0.8, **common)
        case "nesterov":
            return learns.Momentum(0.05, 0.8, use_nesterov=True, **common)
        case "adam":
            return learns.Adam(0.01, **common)
        case "adamw":
            return learns.AdamW(0.01, **{**common, "weight_decay": 0.1})
        case _:
            return learns.RMSProp(0.01, **common)


def trained(
    paddle: Any,
    case: Case,
    model: Any,
    optimizer: Any,
    *,
    first: int = 0,
    behind: Callable[[int], object] = lambda step: None,
) -> list[dict[str, np.ndarray]]:
    """What the model is after every step, from the ``first`` on; ``behind`` is called after each."""
    numbers = np.random.default_rng(case.seed + 1)
    found = []
    for step in range(STEPS):
        for when, name, is_frozen in case.changes:
            if when == step or (when < first == step):
                freeze(model, name, is_frozen=is_frozen)
        ids = paddle.to_tensor(numbers.integers(0, ROWS, (BATCH, 2)))
        labels = paddle.to_tensor(numbers.normal(size=(BATCH, 1)).astype(np.float32))
        if step < first:
            continue
        loss = ((model(ids, case.branch[step]) - labels) ** 2).mean() * 2.0
        if not loss.stop_gradient:
            loss.backward()
        optimizer.step()
        optimizer.clear_grad(case.sets_to_zero)
        found.append({name: each.numpy().copy() for name, each in model.state_dict().items()})
        behind(step)
    return found


def on_tables(paddle: Any, case: Case, job: Session) -> list[dict[str, np.ndarray]]:
    from umiak.ps import paddle_models as models

    model = made(paddle, case)
    elsewhere = ("second", "first") if case.is_tied else ("second",)
    choice = models.TableChoice(elsewhere=elsewhere if case.is_output_tied else ())
    plan = models.plan_of(model, optimizer_of(paddle, case, model), is_shared=bool(job.seat.servers), choice=choice)
    return trained(paddle, case, model, models.carry_over(model, plan, session=job))


def compare(case: Case, where: str, ours: list[dict[str, np.ndarray]], plain: list[dict[str, np.ndarray]]) -> None:
    for step, (own, expected) in enumerate(zip(ours, plain, strict=True)):
        assert own.keys() == expected.keys()
        for name, values in expected.items():
            what = f"{where}, step {step}, {name}: {case}"
            np.testing.assert_allclose(own[name], values, rtol=1e-5, atol=1e-5, err_msg=what)


@pytest.mark.parametrize("servers", [0, 1, 2])
def test_each_step_leaves_parameters_as_paddle_does(servers: int) -> None:
    import paddle

    paddle.set_device("cpu")
    chance = support.chance()
    for _ in range(CASES):
        case = Case.drawn(chance)
        model = made(paddle, case)
        plain = trained(paddle, case, model, optimizer_of(paddle, case, model))
        if not servers:
            compare(case, "alone", on_tables(paddle, case, Session(PsSeat(), Sync(), SessionOptions(shards=4))), plain)
            continue
        with Cluster(servers=servers, trainers=1) as cluster, cluster.job("sync") as job:
            compare(case, f"{servers} servers", on_tables(paddle, case, job), plain)

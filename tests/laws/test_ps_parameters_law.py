"""A law of plain Paddle models on tables: whatever a model does with its parameters, each step leaves them as Paddle does.

Models are generated: frozen, tied, unused, now and then used, unfrozen and frozen later, pre-trained, decayed, clipped parameters, buffers; dense and
sparse embeddings; several optimizers, their groups and schedules, and now and then another one beside it. Gradients of several batches are added up, steps are
left out, and gradients cleared in all ways that Paddle has, or not at all. Each is trained by a plain loop, alone, and with one and two servers in sync, and compared
after every step. What tables can't do is refused, with its code, in the step that would come out otherwise, and in no other.
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
from tests.support.ps_cluster import Cluster
from umiak.ps import paddle_internals
from umiak.ps.environment import PsSeat
from umiak.ps.errors import BadRequest
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

SPARSE = ("sgd", "adagrad", "lazy adam", "adam")
"""Optimizers whose steps with sparse gradients are those that Paddle's documentation describes."""
OTHERS = ("momentum", "nesterov", "adamw", "rmsprop")
SCHEDULES = ("", "", "steps", "warm-up")
CLEARS = ("zeros", "nothing", "by the model", "by hand", "not at all")
PARAMETERS = ("first", "second", "fc", "norm", "branch", "head")


@dataclasses.dataclass(frozen=True)
class Case:
    """One model and how it is trained."""

    optimizer: str
    decay: str
    clip: str
    is_sparse: tuple[bool, bool]
    in_tables: tuple[bool, bool]
    """Whether they are named to become tables, whatever their gradients are."""
    paddings: tuple[int | None, int | None]
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
    second: tuple[bool, ...]
    """In which steps the second embedding is used."""
    output: tuple[bool, ...]
    """In which steps its weight is used past its layer, if it ever is."""
    beside: tuple[int, ...]
    """Steps in which another optimizer has a step as well."""
    beside_of: str
    """The layer that it learns."""
    batches: tuple[int, ...]
    """Whose gradients are added up for each step."""
    left_out: tuple[int, ...]
    """Steps that are not taken, although there is a gradient."""
    clears: tuple[str, ...]
    """How gradients are cleared behind each step."""
    fixed_norm: tuple[bool, ...]
    """In which steps running statistics are used and not changed."""
    schedule: str
    is_grouped: bool
    """Whether some parameters are a group with a learning rate of their own."""
    own_rate: float
    own_decay: bool
    unclipped: bool
    seed: int

    @classmethod
    def drawn(cls, chance: random.Random, *, is_alone: bool = False) -> Case:
        optimizer = chance.choice(SPARSE + OTHERS)
        is_tied, is_output_tied = chance.random() < 0.4, chance.random() < 0.4
        sparse = (chance.random() < 0.6, chance.random() < 0.6)
        # Adam moves all rows in steps in which the dense one is used, and else some: a table with servers has to do one or the other, which a remark says.
        is_mixed = is_tied and (is_alone or "adam" not in optimizer) and chance.random() < 0.5
        sparse = (sparse[0], sparse[0] if is_tied and not is_mixed else sparse[1])
        if optimizer in OTHERS:
            # Paddle's Momentum and RMSProp leave out rows of sparse gradients, and its AdamW has none.
            sparse = (False, False)
        named = chance.random() < 0.5, chance.random() < 0.5
        named = (named[0], named[0]) if is_tied else named
        if is_tied and sparse[0] != sparse[1] and "adam" in optimizer:
            named = (False, False)
        frozen = tuple(name for name in PARAMETERS if chance.random() < 0.25)
        changes = [(chance.randrange(1, STEPS), chance.choice(PARAMETERS), chance.random() < 0.5) for _ in range(3)]
        unfrozen = [(chance.randrange(1, STEPS), name, False) for name in frozen if chance.random() < 0.6]
        # Paddle's Adam has none for sparse gradients.
        decay = chance.choice(("", "l1", "l2") if not any(sparse) or optimizer in ("sgd", "adagrad") else ("",))
        # Paddle can't clip the numbers of sparse gradients. With L1, steps of one size would come back to zero but for rounding, which has a sign.
        by_value = () if any(sparse) or decay == "l1" else ("value", "one-sided")
        likes_one = chance.random() < 0.5
        return cls(
            optimizer=optimizer,
            decay=decay,
            clip=chance.choice(("", "", "norm", "global", *by_value)),
            is_sparse=sparse,
            in_tables=named,
            paddings=(chance.choice((None, 0, 3, -1)), chance.choice((None, None, 3))),
            is_tied=is_tied,
            is_output_tied=is_output_tied,
            pretrained=tuple(name for name in ("first", "second", "head") if chance.random() < 0.3),
            frozen=frozen,
            changes=tuple(sorted([*changes, *unfrozen], key=lambda each: each[0])),
            branch=tuple(chance.random() < 0.5 for _ in range(STEPS)),
            second=tuple(chance.random() < 0.7 for _ in range(STEPS)),
            output=tuple(chance.random() < 0.7 for _ in range(STEPS)),
            beside=tuple(step for step in range(STEPS) if chance.random() < 0.1),
            beside_of=chance.choice(("first", "fc", "head")),
            batches=tuple(chance.choice((1, 1, 1, 2, 3)) for _ in range(STEPS)),
            left_out=tuple(step for step in range(STEPS) if chance.random() < 0.1),
            clears=tuple("zeros" if likes_one else chance.choice(CLEARS) for _ in range(STEPS)),
            fixed_norm=tuple(chance.random() < 0.2 for _ in range(STEPS)),
            schedule=chance.choice(SCHEDULES),
            is_grouped=chance.random() < 0.3,
            own_rate=chance.choice((1.0, 1.0, 0.5)),
            own_decay=not any(sparse) and chance.random() < 0.3,
            unclipped=chance.random() < 0.3,
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
            self.first = nn.Embedding(ROWS, DIM, sparse=case.is_sparse[0], padding_idx=case.paddings[0])
            self.second = nn.Embedding(ROWS, DIM, sparse=case.is_sparse[1], padding_idx=case.paddings[1])
            if case.is_tied:
                self.second.weight = self.first.weight
            # A bias before a normalization has gradients of nothing but rounding, which Adam makes steps of.
            self.fc = nn.Linear(2 * DIM, HIDDEN, weight_attr=attr, bias_attr=False)
            self.norm = nn.BatchNorm1D(HIDDEN)
            self.branch = nn.Linear(HIDDEN, HIDDEN)
            self.head = nn.Linear(HIDDEN, 1)
            self.unused = nn.Linear(3, 2)

        def forward(self, ids: Any, step: int) -> Any:
            first = self.first(ids[:, 0])
            second = self.second(ids[:, 1]) if case.second[step] else first.detach()
            hidden = self.fc(paddle.concat([first, second], axis=1))
            hidden = nn.functional.relu(self.norm(hidden))
            if case.branch[step]:
                hidden = hidden + self.branch(hidden)
            out = self.head(hidden)
            if case.is_output_tied and case.output[step]:
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


def clear(model: Any, optimizer: Any, how: str) -> None:
    match how:
        case "by the model":
            model.clear_gradients()
        case "not at all":
            pass
        case "by hand":
            for parameter in model.parameters():
                parameter.clear_grad()
        case _:
            optimizer.clear_grad(how == "zeros")


def scheduled(paddle: Any, case: Case, rate: float) -> Any:
    schedules = paddle.optimizer.lr
    match case.schedule:
        case "steps":
            return schedules.StepDecay(rate, 2, 0.5)
        case "warm-up":
            return schedules.LinearWarmup(rate, 3, 0.0, rate)
        case _:
            return rate


def optimizer_of(paddle: Any, case: Case, model: Any) -> Any:
    nn, learns = paddle.nn, paddle.optimizer
    parameters = model.parameters()
    if case.is_grouped:
        parameters = [{"params": parameters[:3]}, {"params": parameters[3:], "learning_rate": 0.5}]
    clip = {
        "": None,
        "value": nn.ClipGradByValue(0.05),
        "one-sided": nn.ClipGradByValue(0.08, -0.02),
        "norm": nn.ClipGradByNorm(0.2),
        "global": nn.ClipGradByGlobalNorm(0.3),
    }[case.clip]
    decay = {"": None, "l1": paddle.regularizer.L1Decay(0.02), "l2": 0.05}[case.decay]
    common: dict[str, Any] = {"parameters": parameters, "grad_clip": clip, "weight_decay": decay}

    def rate(number: float) -> Any:
        return scheduled(paddle, case, number)

    match case.optimizer:
        case "sgd":
            return learns.SGD(rate(0.1), **common)
        case "adagrad":
            return learns.Adagrad(rate(0.05), **common)
        case "lazy adam":
            return learns.Adam(rate(0.01), lazy_mode=True, **common)
        case "momentum":
            return learns.Momentum(rate(0.05), 0.8, **common)
        case "nesterov":
            return learns.Momentum(rate(0.05), 0.8, use_nesterov=True, **common)
        case "adam":
            return learns.Adam(rate(0.01), **common)
        case "adamw":
            return learns.AdamW(rate(0.01), **{**common, "weight_decay": 0.1})
        case _:
            return learns.RMSProp(rate(0.01), **common)


def trained(
    paddle: Any,
    case: Case,
    model: Any,
    optimizer: Any,
    *,
    first: int = 0,
    before: Callable[[int, str], object] = lambda step, what: None,
    behind: Callable[[int], object] = lambda step: None,
) -> list[dict[str, np.ndarray]]:
    """What the model is after every step, from the ``first`` on; ``behind`` is called after each, and ``before`` before an optimizer has one."""
    numbers = np.random.default_rng(case.seed + 1)
    schedule = paddle_internals.rate_or_schedule(
        optimizer.plan.optimizers[0] if hasattr(optimizer, "plan") else optimizer
    )
    beside = paddle.optimizer.SGD(0.03, parameters=getattr(model, case.beside_of).parameters())
    found = []
    for step in range(STEPS):
        for when, name, is_frozen in case.changes:
            if when == step or (when < first == step):
                freeze(model, name, is_frozen=is_frozen)
        (model.norm.eval if case.fixed_norm[step] else model.norm.train)()
        for _ in range(case.batches[step]):
            drawn = numbers.integers(0, ROWS, (BATCH, 2))
            if case.optimizer == "adam":
                # Without the last row, Paddle's Adam for sparse gradients reads behind their end on CPUs.
                drawn[0] = ROWS - 1
            ids = paddle.to_tensor(drawn)
            labels = paddle.to_tensor(numbers.normal(size=(BATCH, 1)).astype(np.float32))
            if step < first:
                continue
            loss = ((model(ids, step) - labels) ** 2).mean() * 2.0 / case.batches[step]
            if not loss.stop_gradient:
                loss.backward()
        if step >= first and step not in case.left_out:
            before(step, "step")
            optimizer.step()
        if step >= first and step in case.beside:
            before(step, "beside")
            beside.step()
        if case.schedule:
            schedule.step()
        if step < first:
            continue
        clear(model, optimizer, case.clears[step])
        found.append(state_of(model))
        behind(step)
    return found


class Plain:
    """What plain Paddle does with a case, and what of it tables can't do."""

    def __init__(self, paddle: Any, case: Case) -> None:
        self._case = case
        self._model = made(paddle, case)
        self._some_rows: list[int] = []
        self._beside: list[int] = []
        self.states = trained(paddle, case, self._model, optimizer_of(paddle, case, self._model), before=self._look)

    def refused(self, tables: list[str]) -> tuple[int, str] | None:
        """In which step, with which code, where these layers have tables."""
        found = [(step, "UM-PS-185") for step in self._some_rows]
        found += [(step, "UM-PS-186") for step in self._beside if self._case.beside_of in tables]
        return min(found, default=None)

    def _look(self, step: int, what: str) -> None:
        case, model = self._case, self._model
        learned = {name: each.grad for name, each in model.named_parameters() if not each.stop_gradient}
        if what == "beside":
            self._beside += [step] if learned.get(f"{case.beside_of}.weight") is not None else []
        elif "adam" in case.optimizer:
            dense = {"second"} if case.is_output_tied else set()
            dense |= {"first"} if case.is_tied and (dense or case.is_sparse[0] != case.is_sparse[1]) else set()
            gradients = [learned.get(f"{name}.weight") for name in dense]
            self._some_rows += [step] if any(each is not None and each.is_selected_rows() for each in gradients) else []


def compare_on_tables(paddle: Any, case: Case, job: Session, plain: Plain) -> None:
    """Trains a case on tables, up to a step that is refused as it has to be."""
    from umiak.ps import paddle_models as models

    model = made(paddle, case)
    elsewhere = ("second", "first") if case.is_tied else ("second",)
    named = tuple(name for name, each in zip(("first", "second"), case.in_tables, strict=True) if each)
    choice = models.TableChoice(elsewhere=elsewhere if case.is_output_tied else (), tables=named)
    plan = models.plan_of(model, optimizer_of(paddle, case, model), is_shared=bool(job.seat.servers), choice=choice)
    ours: list[dict[str, np.ndarray]] = []
    begun: list[int] = []
    refused = None
    try:
        optimizer = models.carry_over(model, plan, session=job)
        trained(
            paddle,
            case,
            model,
            optimizer,
            before=lambda step, _what: begun.append(step),
            behind=lambda _step: ours.append(state_of(model)),
        )
    except BadRequest as error:
        refused = begun[-1], error.problems[0].code
    where = f"{len(job.seat.servers)} servers"
    compare(case, where, ours, plain.states[: len(ours)])
    assert not [each for each in plan.remarks if "lazily" in each], case
    assert refused == plain.refused([layer for each in plan.tables for layer in each.layers]), f"{where}: {case}"
    assert len(ours) == (STEPS if refused is None else refused[0])


def state_of(model: Any) -> dict[str, np.ndarray]:
    return {name: each.numpy().copy() for name, each in model.state_dict().items()}


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
        case = Case.drawn(chance, is_alone=not servers)
        plain = Plain(paddle, case)
        if not servers:
            compare_on_tables(paddle, case, Session(PsSeat(), Sync(), SessionOptions(shards=4)), plain)
            continue
        with Cluster(servers=servers, trainers=1) as cluster, cluster.job("sync") as job:
            compare_on_tables(paddle, case, job, plain)

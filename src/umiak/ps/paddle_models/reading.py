"""Reads a Paddle model and its optimizers, for the plan that carries them over. An adapter, for Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import paddle

from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.ps.paddle import can_learn, running_statistics
from umiak.ps.paddle_models import choice as choices
from umiak.ps.paddle_models import optimizers as learning
from umiak.ps.paddle_models.choice import EmbeddingFacts
from umiak.ps.paddle_models.plans import ModelPlan, PlannedParameter, PlannedTable, TableChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any


DEFAULT = TableChoice()
PLAIN = paddle.nn.Embedding.forward
"""What a layer that can read from a table does."""
WEIGHT = "weight"


class OwnedWeight(NamedTuple):
    """A parameter and the layers that have it."""

    weight: paddle.Tensor
    layers: dict[str, paddle.nn.Layer]
    """By their names in the model."""


def plan_of(
    model: paddle.nn.Layer,
    optimizers: Any | Sequence[Any],
    *,
    is_shared: bool,
    choice: TableChoice = DEFAULT,
) -> ModelPlan:
    """What becomes of the model and of its optimizer, or of several. ``is_shared``: with servers, or collectively.

    Nothing is changed. What can't be carried over is in `ModelPlan.problems`, all of it.
    """
    listed = tuple(optimizers) if isinstance(optimizers, (list, tuple)) else (optimizers,)
    read = learning.read(listed)
    weights = embedding_weights(model)
    statistics = running_statistics(model)
    by_weight = {id(each.weight): each for each in weights}
    names = {id(each): name for name, each in model.named_parameters()}
    tables, parameters, frozen, remarks = [], [], [], []
    problems = [*read.problems, *_unknown_names(choice, weights)]
    for each in _all_parameters(model, read.parameters):
        name = names.get(id(each), each.name)
        learned = read.learned.get(id(each))
        if learned is None or id(each) in statistics or not can_learn(each):
            frozen.append(name)
            if not each.stop_gradient and not read.problems:
                remarks.append(f"{name}: no optimizer has it, so it does not learn")
            continue
        why, has_sparse_gradients = "", False
        if (owned := by_weight.get(id(each))) is not None:
            facts = _facts(owned, model)
            learned = choices.learned_as(facts, learned, choice)
            decision = choices.decide(facts, learned, is_shared=is_shared, choice=choice)
            remarks += [decision.remark] if decision.remark else []
            if decision.is_table:
                tables.append(_table(facts, owned, learned, decision.why))
                continue
            why, has_sparse_gradients = decision.why, choices.has_sparse_gradients(facts, choice)
        if id(each) not in names:
            remarks.append(f"{name}: learns, but is no parameter of the model")
        if each.dtype != paddle.float32:
            remarks.append(f"{name}: {str(each.dtype).removeprefix('paddle.')} here, float32 where it learns")
        parameters.append(
            PlannedParameter(
                name=name,
                shape=tuple(each.shape),
                why=why,
                rule=learned.rule,
                decay=learned.decay,
                clip=learned.clip,
                rate=learned.rate,
                label=learned.label,
                optimizer=learned.optimizer,
                clip_group=learned.clip_group,
                is_frozen=bool(each.stop_gradient),
                has_sparse_gradients=has_sparse_gradients,
            )
        )
    if is_shared and read.clips:
        remarks.append("gradients are clipped by each trainer for itself, before they are put together")
    return ModelPlan(
        tables=tuple(tables),
        parameters=tuple(parameters),
        frozen=tuple(frozen),
        clips=read.clips,
        rates=read.rates,
        remarks=tuple(remarks),
        problems=tuple(problems),
        uncarried=read.problems,
        optimizers=listed,
    )


def used_elsewhere(model: paddle.nn.Layer, run: Callable[[], paddle.Tensor]) -> tuple[str, ...]:
    """Layers (`nn.Embedding`) whose weight a loss also depends on past their `forward`: to be given as ``TableChoice(elsewhere=...)``.

    ``run`` computes the loss of a batch with the unchanged model; it is called once, and the model, its gradients, buffers and
    Paddle's random state are afterwards as before.
    """
    weights = [each for each in embedding_weights(model) if not each.weight.stop_gradient]
    if not weights:
        return ()
    random = paddle.get_rng_state()
    # A recurrent layer has a buffer that holds nothing before it is used.
    held = [each for each in model.buffers() if each._is_initialized()]  # noqa: SLF001
    buffers = [(each, each.numpy().copy()) for each in held]
    try:
        for owned in weights:
            # What goes through `forward` reaches this one's gradient, and everything else that of the weight itself.
            copy = owned.weight.detach()
            copy.stop_gradient = False
            for layer in owned.layers.values():
                layer.__dict__["forward"] = _reading(layer, copy)
        loss = run()
        loss.backward()
        return tuple(name for each in weights if each.weight.grad is not None for name in each.layers)
    finally:
        for owned in weights:
            for layer in owned.layers.values():
                layer.__dict__.pop("forward", None)
        for parameter in model.parameters():
            parameter.clear_gradient(False)
        paddle.set_rng_state(random)
        for each, values in buffers:
            each.set_value(values)


def _reading(layer: Any, weight: paddle.Tensor) -> Callable[..., paddle.Tensor]:
    """The layer's `forward`, from another weight."""

    def forward(x: Any = None, input: Any = None) -> paddle.Tensor:  # noqa: A002 - Paddle's word
        ids = x if input is None else input
        rows: paddle.Tensor = paddle.nn.functional.embedding(
            ids,
            weight=weight,
            padding_idx=layer._padding_idx,  # noqa: SLF001
            sparse=False,
        )
        return rows

    return forward


def embedding_weights(model: paddle.nn.Layer) -> list[OwnedWeight]:
    """The weights of all embedding layers that could read from a table, each once."""
    found: dict[int, OwnedWeight] = {}
    for name, layer in model.named_sublayers(include_self=True):
        weight = layer._parameters.get(WEIGHT)  # noqa: SLF001
        if isinstance(layer, paddle.nn.Embedding) and weight is not None and type(layer).forward is PLAIN:
            found.setdefault(id(weight), OwnedWeight(weight, {})).layers[name] = layer
    return [*found.values()]


def _all_parameters(model: paddle.nn.Layer, more: Iterable[Any]) -> list[Any]:
    """Those of the model, then those that only an optimizer has."""
    found = {id(each): each for each in model.parameters()}
    found |= {id(each): each for each in more if id(each) not in found}
    return [*found.values()]


def _facts(owned: OwnedWeight, model: paddle.nn.Layer) -> EmbeddingFacts:
    rows, dim = owned.weight.shape
    own = {id(each) for each in owned.layers.values()}
    others = [
        name or type(layer).__name__
        for name, layer in model.named_sublayers(include_self=True)
        if id(layer) not in own and any(each is owned.weight for each in layer._parameters.values())  # noqa: SLF001
    ]
    obstacle = ""
    if others:
        obstacle = f"its weight is also that of {', '.join(others)}"
    elif owned.weight.dtype != paddle.float32:
        obstacle = f"its weight is {str(owned.weight.dtype).removeprefix('paddle.')}, and rows of tables are float32"
    elif any(getattr(each, "_max_norm", None) is not None for each in owned.layers.values()):
        obstacle = "max_norm is no setting of tables"
    elif any(getattr(each, "_scale_grad_by_freq", False) for each in owned.layers.values()):
        obstacle = "scale_grad_by_freq is no setting of tables"
    sparse = any(getattr(each, "_sparse", False) for each in owned.layers.values())
    return EmbeddingFacts(
        layers=tuple(owned.layers), rows=rows, dim=dim, is_sparse=sparse, is_tied=bool(others), obstacle=obstacle
    )


def _table(facts: EmbeddingFacts, owned: OwnedWeight, learned: learning.LearnedBy, why: str) -> PlannedTable:
    rule: Any = learned.rule
    return PlannedTable(
        name=facts.layers[0] or WEIGHT,
        layers=facts.layers,
        rows=facts.rows,
        dim=facts.dim,
        why=why,
        rule=replace(rule, learning_rate=learned.rate * rule.learning_rate),
        decay=learned.decay,
        clip=learned.clip,
        optimizer=learned.optimizer,
        clip_group=learned.clip_group,
        is_frozen=bool(owned.weight.stop_gradient),
    )


def padding_of(layer: Any) -> int | None:
    """The id of a layer that reads as zeros."""
    padding = layer._padding_idx  # noqa: SLF001
    if padding is None or padding == -1 - layer._num_embeddings:  # noqa: SLF001
        return None
    return int(padding) if padding >= 0 else int(layer._num_embeddings + padding)  # noqa: SLF001


def _unknown_names(choice: TableChoice, weights: list[OwnedWeight]) -> list[Problem]:
    known = sorted(name for each in weights for name in each.layers)
    hint = f"the model has {', '.join(known)}" if known else "the model has no paddle.nn.Embedding"
    return [
        Problem(code=learning.CODE, what=f"no embedding of the model is called {name}", hint=hint)
        for name in (*choice.tables, *choice.parameters, *choice.elsewhere)
        if name not in known
    ]

"""Reads a Paddle model and its optimizers, for the plan that carries them over. An adapter, for Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import paddle

from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.ps import paddle_internals
from umiak.ps.paddle import can_learn, running_statistics
from umiak.ps.paddle_models import optimizers as learning
from umiak.ps.paddle_models import plans
from umiak.ps.paddle_models.plans import EmbeddingFacts, ModelPlan, PlannedParameter, PlannedTable, TableChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from umiak.ps.paddle_types import Layer, Optimizer, Parameter, Tensor


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
    optimizers: Optimizer | Sequence[Optimizer],
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
    for parameter in _all_parameters(model, read.parameters):
        name = names.get(id(parameter), parameter.name)
        learned = read.learned.get(id(parameter))
        if learned is None or id(parameter) in statistics or not can_learn(parameter):
            frozen.append(name)
            if not parameter.stop_gradient and not read.problems:
                remarks.append(f"{name}: no optimizer has it, so it does not learn")
            continue
        planned = PlannedParameter(
            name=name, shape=tuple(parameter.shape), learned=learned, is_frozen=bool(parameter.stop_gradient)
        )
        if (owned := by_weight.get(id(parameter))) is not None:
            embedding, remark = _embedding(planned, _facts(owned, model), is_shared=is_shared, choice=choice)
            remarks += [remark] if remark else []
            if isinstance(embedding, PlannedTable):
                tables.append(embedding)
                continue
            planned = embedding
        if id(parameter) not in names:
            remarks.append(f"{name}: learns, but is no parameter of the model")
        if parameter.dtype != paddle.float32:
            remarks.append(f"{name}: {str(parameter.dtype).removeprefix('paddle.')} here, float32 where it learns")
        parameters.append(planned)
    if is_shared and read.clips:
        remarks.append("gradients are clipped by each trainer for itself, before they are put together")
    return ModelPlan(
        tables=tuple(tables),
        parameters=tuple(parameters),
        frozen=tuple(frozen),
        clips=read.clips,
        rates=read.rates,
        remarks=tuple(remarks),
        problems=(*read.problems, *_unknown_names(choice, weights)),
        uncarried=read.problems,
        optimizers=listed,
    )


def _embedding(
    planned: PlannedParameter, facts: EmbeddingFacts, *, is_shared: bool, choice: TableChoice
) -> tuple[PlannedTable | PlannedParameter, str]:
    """What becomes of the weight of an embedding, and a remark if there is one."""
    learned = plans.learned_as(facts, planned.learned, choice)
    decision = plans.decide(facts, learned, is_shared=is_shared, choice=choice)
    if not decision.is_table:
        sparse = plans.has_sparse_gradients(facts, choice)
        mixed = facts.is_sparse and not sparse
        kept = replace(planned, learned=learned, why=decision.why, has_sparse_gradients=sparse, is_mixed=mixed)
        return kept, decision.remark
    rate = learned.rate * getattr(learned.rule, "learning_rate", 1.0)
    table = PlannedTable(
        name=facts.layers[0] or WEIGHT,
        layers=facts.layers,
        rows=facts.rows,
        dim=facts.dim,
        why=decision.why,
        learned=replace(learned, rule=replace(learned.rule, learning_rate=rate)),
        is_frozen=planned.is_frozen,
        every_row=decision.every_row,
        has_sparse_gradients=plans.has_sparse_gradients(facts, choice),
    )
    return table, decision.remark


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
    held = [each for each in model.buffers() if paddle_internals.is_initialized(each)]
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


def _reading(layer: Layer, weight: paddle.Tensor) -> Callable[..., paddle.Tensor]:
    """The layer's `forward`, from another weight."""

    def forward(x: Tensor | None = None, input: Tensor | None = None) -> paddle.Tensor:  # noqa: A002 - Paddle's word
        ids = x if input is None else input
        rows: paddle.Tensor = paddle.nn.functional.embedding(
            ids,
            weight=weight,
            padding_idx=paddle_internals.padding_index(layer),
            sparse=False,
        )
        return rows

    return forward


def embedding_weights(model: paddle.nn.Layer) -> list[OwnedWeight]:
    """The weights of all embedding layers that could read from a table, each once."""
    found: dict[int, OwnedWeight] = {}
    for name, layer in model.named_sublayers(include_self=True):
        weight = paddle_internals.parameters_of(layer).get(WEIGHT)
        if isinstance(layer, paddle.nn.Embedding) and weight is not None and type(layer).forward is PLAIN:
            found.setdefault(id(weight), OwnedWeight(weight, {})).layers[name] = layer
    return [*found.values()]


def _all_parameters(model: paddle.nn.Layer, more: Iterable[Parameter]) -> list[Parameter]:
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
        if id(layer) not in own and any(each is owned.weight for each in paddle_internals.parameters_of(layer).values())
    ]
    layers = owned.layers.values()
    kinds = {bool(getattr(each, "_sparse", False)) for each in layers}
    obstacle = ""
    if others:
        obstacle = f"its weight is also that of {', '.join(others)}"
    elif owned.weight.dtype != paddle.float32:
        obstacle = f"its weight is {str(owned.weight.dtype).removeprefix('paddle.')}, and rows of tables are float32"
    elif any(getattr(each, "_max_norm", None) is not None for each in owned.layers.values()):
        obstacle = "max_norm is no setting of tables"
    elif any(getattr(each, "_scale_grad_by_freq", False) for each in owned.layers.values()):
        obstacle = "scale_grad_by_freq is no setting of tables"
    elif len(kinds) > 1 and any(paddle_internals.padding_of(each) is not None for each in layers):
        obstacle = "of its layers only some have sparse=True, whose gradients of a padding index count"
    return EmbeddingFacts(
        layers=tuple(owned.layers),
        rows=rows,
        dim=dim,
        is_sparse=True in kinds,
        is_tied=bool(others),
        is_mixed=len(kinds) > 1,
        obstacle=obstacle,
    )


def _unknown_names(choice: TableChoice, weights: list[OwnedWeight]) -> list[Problem]:
    known = sorted(name for each in weights for name in each.layers)
    hint = f"the model has {', '.join(known)}" if known else "the model has no paddle.nn.Embedding"
    return [
        Problem(code=learning.CODE, what=f"no embedding of the model is called {name}", hint=hint)
        for name in (*choice.tables, *choice.parameters, *choice.elsewhere)
        if name not in known
    ]

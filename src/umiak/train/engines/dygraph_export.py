"""Files of a model in the form of PaddleRec 2: an inference model, traced from how the model is called, and PaddleRec's own weights. An adapter, for Paddle.

    with recording(model) as calls:             `model(...)` and `model.forward(...)` alike
        code.infer_forward(model, metrics, tensors)
    export(model, calls[0], "output_model/inference/2", batch_size, code)

The directory has ``inference.*``, which Paddle writes, and ``signature.json``, as that of models of our own form. Inputs are the tensors that `forward` was
called with, under the names of its parameters.
"""

from __future__ import annotations

import inspect
import os
import shutil
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.problem import Exit, UmiakError
from umiak.core.value import replace, value
from umiak.train.checkpoints import paddlerec
from umiak.train.checkpoints.weights import StateEntry
from umiak.train.engines import paddle_export, paddle_steps
from umiak.train.engines.paddle_export import Exported, Input, Output
from umiak.train.engines.portable.writing import PortableModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from umiak.core.json_types import JsonMapping
    from umiak.data.array_types import AnyArray
    from umiak.train.engines.dygraph_class import DygraphCode


@value
class Call:
    """One call of a model's forward."""

    arguments: tuple[Any, ...]
    named: dict[str, Any]
    answer: Any


@contextmanager
def recording(model: paddle.nn.Layer) -> Iterator[list[Call]]:
    """What the model's forward is called with, and answers."""
    calls: list[Call] = []
    own = model.forward

    def forward(*arguments: Any, **named: Any) -> Any:
        answer = own(*arguments, **named)
        calls.append(Call(arguments=arguments, named=named, answer=answer))
        return answer

    model.forward = forward
    try:
        yield calls
    finally:
        del model.forward


def export(model: paddle.nn.Layer, call: Call, path: str, samples: int, code: DygraphCode) -> PortableModel:
    """Write the model into a directory, in the place of one that is there, and ask it as a server would."""
    tensors = _flat([call.arguments, call.named])
    inputs = _inputs(model, call, samples)
    outputs = tuple(
        [
            Output(name=name, dtype=str(each.dtype), shape=(None, *each.shape[1:]))
            for name, each in answers(call).items()
        ]
    )
    partial = f"{path}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    _trace(_Served(model, call), inputs, os.path.join(partial, paddle_export.NAME), code)
    done = Exported(path=path, inputs=inputs, outputs=outputs)
    arrays = {each.name: tensor.numpy() for each, tensor in zip(inputs, tensors, strict=True)}
    _check(replace(done, path=partial), call, arrays)
    paddle_export.put(done, partial)
    return PortableModel(exported=done, arrays=arrays, expected=answers(call))


def answers(call: Call) -> dict[str, AnyArray]:
    """What a forward has answered: `output` where it is one tensor."""
    flat = _flat(call.answer)
    named = list(call.answer) if isinstance(call.answer, dict) and len(call.answer) == len(flat) else None
    if named is None:
        named = ["output"] if len(flat) == 1 else [f"output_{number}" for number in range(len(flat))]
    return {str(name): array(each) for name, each in zip(named, flat, strict=True)}


def array(tensor: paddle.Tensor) -> AnyArray:
    """A tensor's numbers."""
    own = tensor.astype("float32") if tensor.dtype in paddle_steps.HALVES else tensor.detach().clone()
    # Parameters are views of one array, all of which `numpy` of each one would copy.
    found: AnyArray = own.numpy()
    return found


def state_entries(model: paddle.nn.Layer) -> dict[str, StateEntry]:
    """What the state of a model has, before anything of it is in tables."""
    first: dict[int, str] = {}
    found = {}
    for name, tensor in model.state_dict().items():
        dtype = array(paddle.zeros([1], tensor.dtype)).dtype
        same_as = first.setdefault(id(tensor), name)
        found[name] = StateEntry(shape=tuple(tensor.shape), same_as=same_as, dtype=str(dtype))
    return found


def set_state(model: paddle.nn.Layer, state: Mapping[str, AnyArray]) -> None:
    """Give a plain model its weights."""
    for name, tensor in model.state_dict().items():
        if name in state:
            tensor.set_value(paddle.to_tensor(state[name]).astype(tensor.dtype))


def write_paddlerec(weights: Mapping[str, AnyArray], optimizer: JsonMapping, directory: str) -> None:
    """`rec.pdparams` and `rec.pdopt`, each under its name when it is whole."""
    for name, state in ((paddlerec.WEIGHTS, weights), (paddlerec.OPTIMIZER, optimizer)):
        path = os.path.join(directory, name)
        made = {key: paddle.to_tensor(each) if isinstance(each, np.ndarray) else each for key, each in state.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where an optimizer has nothing to remember
            paddle.save(made, f"{path}.partial")
        os.replace(f"{path}.partial", path)


class _Served(paddle.nn.Layer):  # type: ignore[misc]
    """A model whose arguments are the tensors of a call in a row; what else it was called with stays."""

    def __init__(self, model: paddle.nn.Layer, call: Call) -> None:
        super().__init__()
        self.model = model
        self.call = call

    def forward(self, tensors: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        found: list[paddle.Tensor] = _as_it_is(self, tensors)
        return found

    def answers(self, tensors: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        given = iter(tensors)
        arguments = _filled(self.call.arguments, given)
        named = _filled(self.call.named, given)
        return _flat(self.model(*arguments, **named))


class _Rewritten(_Served):
    """The same, with Python's `if` and `for` over tensors rewritten by Paddle."""

    def forward(self, tensors: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        given = iter(tensors)
        arguments = _filled(self.call.arguments, given)
        named = _filled(self.call.named, given)
        return _flat(self.model(*arguments, **named))


@paddle.jit.not_to_static  # type: ignore[untyped-decorator]
def _as_it_is(served: _Served, tensors: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
    """The models' code is run as it is, not rewritten by Paddle, which does not understand all of Python."""
    return served.answers(tensors)


def _trace(served: _Served, inputs: Sequence[Input], path: str, code: DygraphCode) -> None:
    specs = [paddle.static.InputSpec([*each.shape], each.dtype, each.name) for each in inputs]
    tried: list[Callable[[], paddle.nn.Layer]] = [
        lambda: served,
        lambda: _Rewritten(served.model, served.call),
    ]
    error: Exception | None = None
    for made in tried:
        layer = made()
        layer.eval()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Paddle warns about its own functions while it traces them
                paddle.jit.save(paddle.jit.to_static(layer, input_spec=[specs], full_graph=True), path)
        except Exception as failed:  # noqa: BLE001 - whatever a model's code may raise
            error = error or failed
        else:
            return
    assert error is not None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raise UmiakError.of(
        "UM-TRAIN-066",
        "the model can't be traced, so no inference model can be written",
        why=f"{type(error).__name__}: {lines[-1][:300] if lines else ''}",
        hint="forward must compute with tensors alone: no numpy(), no Python numbers made of tensors; or write `use_inference: false`",
        where=code.file,
        exit_status=Exit.JOB_FAILED,
    ) from error


def _inputs(model: paddle.nn.Layer, call: Call, samples: int) -> tuple[Input, ...]:
    """The tensors of a call under the names of forward's parameters; those of a list have numbers behind."""
    try:
        bound = inspect.signature(type(model).forward).bind(model, *call.arguments, **call.named)
        given = [(name, each) for name, each in bound.arguments.items() if each is not model]
    except (TypeError, ValueError):
        given = [(f"input_{number}", each) for number, each in enumerate(call.arguments)] + [*call.named.items()]
    by_tensor = {id(tensor): name for name, each in given for name, tensor in _spelled(name, each)}
    found = []
    for number, tensor in enumerate(_flat([call.arguments, call.named])):
        dims = tensor.shape
        any_first = dims and dims[0] % max(1, samples) == 0
        shape = (None, *dims[1:]) if any_first else tuple(dims)
        dtype = str(tensor.dtype).rpartition(".")[2]
        kind = "sparse" if "int" in dtype else "dense"
        found.append(Input(name=by_tensor.get(id(tensor), f"input_{number}"), kind=kind, dtype=dtype, shape=shape))
    return tuple(found)


def _spelled(name: str, item: Any) -> list[tuple[str, paddle.Tensor]]:
    # While a model is traced, its tensors are values of a program.
    if isinstance(item, (paddle.Tensor, paddle.pir.Value)):
        return [(name, item)]
    if isinstance(item, (list, tuple)):
        return [found for number, each in enumerate(item) for found in _spelled(f"{name}_{number}", each)]
    if isinstance(item, dict):
        return [found for key, each in item.items() for found in _spelled(f"{name}_{key}", each)]
    return []


def _flat(item: Any) -> list[paddle.Tensor]:
    return [tensor for _, tensor in _spelled("", item)]


def _filled(item: Any, tensors: Iterator[paddle.Tensor]) -> Any:
    """The same with other tensors."""
    if isinstance(item, paddle.Tensor):
        return next(tensors)
    if isinstance(item, (list, tuple)):
        return type(item)([_filled(each, tensors) for each in item])
    if isinstance(item, dict):
        return {name: _filled(each, tensors) for name, each in item.items()}
    return item


def _check(done: Exported, call: Call, arrays: Mapping[str, AnyArray]) -> None:
    """UmiakError if the written model answers otherwise than the one that was trained."""
    found = paddle_export.answered(done.path, arrays)
    paddle_export.compare(done, found, answers(call))

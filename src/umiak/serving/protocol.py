"""Requests for inference as arrays, and answers as JSON: the Open Inference Protocol v2, and lists of instances. A decider.

    asked = infer_request(body, json_bytes=None, model=signature)       {"inputs": [{"name": "1", "shape": [2, 1], "datatype": "INT64", "data": [3, 4]}]}
    asked = instances_request(body, model=signature)                    {"instances": [{"1": [3], "price": 0.5}]}
    infer_answer(asked, outputs, model="ctr", version="3")

Every input of a request must be one of the model, and every input of the model must be there, so nothing is guessed but one thing: a slot that an instance does not have has no ids.
Tensors may follow the JSON as bytes, as clients of Triton send them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.value import value
from umiak.web.messages import HttpRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

DATATYPES = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
MOST_DIMENSIONS = 8


@value
class ServedInput:
    """One input of a model."""

    name: str
    is_sparse: bool
    dtype: str
    shape: tuple[int | None, ...]
    padding: int | None = None


@value
class ServedOutput:
    """One output of a model."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@value
class ServedSignature:
    """What goes into a model, and what comes out."""

    inputs: tuple[ServedInput, ...]
    outputs: tuple[ServedOutput, ...]

    def input(self, name: str) -> ServedInput:
        """HttpRefusal if there is none of this name."""
        tensor = next((each for each in self.inputs if each.name == name), None)
        if tensor is None:
            raise _bad(f"no input is called {name}: there are {', '.join(each.name for each in self.inputs)}")
        return tensor


@value
class InferenceRequest:
    """One request."""

    arrays: dict[str, Any]
    """By the names of inputs, each with a row for each sample."""
    rows: int
    id: str = ""
    outputs: tuple[str, ...] = ()
    """Those that are wanted; none: all."""
    binary: frozenset[str] = frozenset()
    """Outputs that are sent as bytes behind the JSON."""


def signature_of(text: str) -> ServedSignature:
    """From the file that an inference model has beside it. ValueError, KeyError or TypeError if it is none."""
    data = json.loads(text)
    return ServedSignature(
        inputs=tuple(
            [
                ServedInput(
                    name=str(each["name"]),
                    is_sparse=each["kind"] == "sparse",
                    dtype=str(each["dtype"]),
                    shape=tuple(each["shape"]),
                    padding=each.get("padding"),
                )
                for each in data["inputs"]
            ]
        ),
        outputs=tuple(
            [
                ServedOutput(name=str(each["name"]), dtype=str(each["dtype"]), shape=tuple(each["shape"]))
                for each in data["outputs"]
            ]
        ),
    )


# ---- requests


def infer_request(body: bytes, json_bytes: int | None, model: ServedSignature) -> InferenceRequest:
    """A request of the protocol; ``json_bytes``: so long is its JSON, and tensors follow. HttpRefusal if it is none."""
    head = _object(body if json_bytes is None else body[:json_bytes])
    rest = memoryview(b"" if json_bytes is None else body)[json_bytes or 0 :]
    given = head.get("inputs")
    if not isinstance(given, list):
        raise _bad("inputs are missing: a list of tensors")
    arrays: dict[str, Array] = {}
    for each in given:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise _bad("an input is an object with name, shape, datatype and data")
        of = model.input(each["name"])
        if of.name in arrays:
            raise _bad(f"input {of.name} is there twice")
        array, rest = _tensor(each, rest)
        arrays[of.name] = _fitted(of, array)
    if rest:
        raise _bad(f"{len(rest)} bytes are left behind the tensors")
    outputs, binary = _outputs(head, model)
    request_id = head.get("id", "")
    return InferenceRequest(
        arrays=arrays,
        rows=_rows(arrays, model),
        id=request_id if isinstance(request_id, str) else "",
        outputs=outputs,
        binary=binary,
    )


def instances_of(body: bytes) -> list[Any]:
    """Those of a body. HttpRefusal if there are none."""
    instances = _object(body).get("instances")
    if not isinstance(instances, list) or not instances:
        raise _bad("instances are missing: a list of objects, one for each row")
    return instances


def instances_request(body: bytes, model: ServedSignature) -> InferenceRequest:
    """A list of samples, each an object with its slots. HttpRefusal if it is none."""
    instances = instances_of(body)
    known = {each.name for each in model.inputs}
    for number, each in enumerate(instances):
        if not isinstance(each, dict):
            raise _bad(f"instance {number} is no object with slots")
        for name in each:
            if name not in known:
                raise _bad(f"instance {number}: no input is called {name}: there are {', '.join(sorted(known))}")
    arrays = {of.name: _column(of, instances) for of in model.inputs}
    return InferenceRequest(arrays=arrays, rows=len(instances))


def _tensor(each: Mapping[str, Any], rest: memoryview) -> tuple[Array, memoryview]:
    name, shape, kind = each["name"], each.get("shape"), DATATYPES.get(str(each.get("datatype")))
    if kind is None:
        raise _bad(f"input {name}: datatype {each.get('datatype')} is not one of {', '.join(DATATYPES)}")
    is_shape = isinstance(shape, list) and 1 <= len(shape) <= MOST_DIMENSIONS
    if not is_shape or not all(type(size) is int and 0 <= size < 1 << 31 for size in shape or ()):
        raise _bad(f"input {name}: its shape is a list of sizes")
    assert isinstance(shape, list)
    count = 1
    for size in shape:
        count *= size
    parameters = each.get("parameters")
    length = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if length is not None:
        if type(length) is not int or length != count * np.dtype(kind).itemsize or length > len(rest):
            raise _bad(f"input {name}: {length} bytes are not {count} numbers of {each['datatype']}, or are not there")
        return np.frombuffer(rest[:length], kind).reshape(shape), rest[length:]
    return _numbers(each.get("data"), kind, count, name).reshape(shape), rest


def _numbers(data: Any, kind: Any, count: int, name: str) -> Array:
    """Flat, or nested in any way."""
    if not isinstance(data, list):
        raise _bad(f"input {name}: data is missing: a list of numbers")
    try:
        array = np.array(data)
        flat = array.reshape(-1)
    except (ValueError, OverflowError):
        raise _bad(f"input {name}: its data is no tensor") from None
    if flat.size != count:
        raise _bad(f"input {name}: {flat.size} numbers where its shape has {count}")
    if not count:
        return np.empty(0, kind)
    if flat.dtype.kind not in "biuf":
        raise _bad(f"input {name}: its data is not of numbers")
    if np.issubdtype(kind, np.integer) and flat.dtype.kind == "f":
        raise _bad(f"input {name}: its data has fractions, and is said to be of integers")
    with np.errstate(over="ignore"):
        numbers: Array = flat.astype(kind)
    return numbers


def _fitted(of: ServedInput, array: Array) -> Array:
    """As the model takes it."""
    if array.ndim == 1 and len(of.shape) == 2:
        array = array[:, None]
    if array.dtype.kind == "f" and of.dtype.startswith(("int", "uint")):
        raise _bad(f"input {of.name} is of {of.dtype}, and {array.dtype} was sent")
    if len(of.shape) != array.ndim or any(
        wanted not in (None, size) for wanted, size in zip(of.shape, array.shape, strict=False)
    ):
        shown = [-1 if size is None else size for size in of.shape]
        raise _bad(f"input {of.name} has the shape {shown}, and {list(array.shape)} was sent")
    return np.ascontiguousarray(array.astype(of.dtype))


def _rows(arrays: Mapping[str, Array], model: ServedSignature) -> int:
    missing = [each.name for each in model.inputs if each.name not in arrays]
    if missing:
        raise _bad(f"inputs are missing: {', '.join(missing)}")
    sizes = {array.shape[0] for array in arrays.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise _bad("inputs must have the same number of rows, one or more")
    return int(sizes.pop())


def _outputs(head: Mapping[str, Any], model: ServedSignature) -> tuple[tuple[str, ...], frozenset[str]]:
    known = [each.name for each in model.outputs]
    parameters = head.get("parameters")
    all_binary = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    wanted = head.get("outputs")
    if not isinstance(wanted, list) or not wanted:
        return (), frozenset(known if all_binary else ())
    names, binary = [], set()
    for each in wanted:
        name = each.get("name") if isinstance(each, dict) else None
        if name not in known:
            raise _bad(f"no output is called {name}: there are {', '.join(known)}")
        names.append(str(name))
        own = each.get("parameters")
        if (own.get("binary_data", all_binary) if isinstance(own, dict) else all_binary) is True:
            binary.add(str(name))
    return tuple(names), frozenset(binary)


def _column(of: ServedInput, instances: Sequence[Mapping[str, Any]]) -> Array:
    """One slot of all instances; ids are filled up to the longest."""
    rows = []
    for number, each in enumerate(instances):
        given = each.get(of.name)
        if given is None and not of.is_sparse:
            raise _bad(f"instance {number} has no {of.name}")
        given = [] if given is None else given
        values = given if isinstance(given, list) else [given]
        if not all(type(item) in (int, float) for item in values) or (
            of.is_sparse and any(type(item) is float for item in values)
        ):
            raise _bad(
                f"instance {number}: {of.name} is {'an id or a list of ids' if of.is_sparse else 'a list of numbers'}"
            )
        rows.append(values)
    if of.is_sparse and of.padding is not None and len(of.shape) == 2 and of.shape[1] is None:
        width = max(1, *(len(row) for row in rows))
        rows = [row + [of.padding] * (width - len(row)) for row in rows]
    try:
        array = np.array(rows, of.dtype)
    except (ValueError, OverflowError):
        raise _bad(f"{of.name}: not the same number of values in every instance, or too large") from None
    return _fitted(of, array.reshape(len(rows), *array.shape[1:]))


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise _bad("the body is no JSON") from None
    if not isinstance(data, dict):
        raise _bad("the body is no JSON object")
    return data


def _bad(what: str) -> HttpRefusal:
    return HttpRefusal(400, what)


# ---- answers


def infer_answer(
    asked: InferenceRequest, outputs: Mapping[str, Array], *, model: str, version: str
) -> tuple[bytes, int | None]:
    """The body, and how much of it is JSON where bytes follow."""
    told, rest = [], []
    for name in asked.outputs or outputs:
        array = outputs[name]
        tensor: dict[str, Any] = {"name": name, "shape": [*array.shape], "datatype": datatype_of(array.dtype)}
        if name in asked.binary:
            data = np.ascontiguousarray(array).tobytes()
            rest.append(data)
            tensor["parameters"] = {"binary_data_size": len(data)}
        else:
            tensor["data"] = array.reshape(-1).tolist()
        told.append(tensor)
    head = {"model_name": model, "model_version": version, **({"id": asked.id} if asked.id else {}), "outputs": told}
    text = json.dumps(head, separators=(",", ":")).encode()
    return text + b"".join(rest), len(text) if rest else None


def instances_answer(outputs: Mapping[str, Array]) -> bytes:
    """A number or a list for each instance; an object where the model has several outputs."""
    columns = {name: array.reshape(array.shape[0], -1) for name, array in outputs.items()}
    plain = {name: (array[:, 0] if array.shape[1] == 1 else array).tolist() for name, array in columns.items()}
    if len(plain) == 1:
        (instances,) = plain.values()
    else:
        instances = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
    return json.dumps({"predictions": instances}, separators=(",", ":")).encode()


def metadata(model: ServedSignature, *, name: str, versions: Sequence[str]) -> dict[str, Any]:
    """What the protocol says of a model."""

    def tensor(each: ServedInput | ServedOutput) -> dict[str, Any]:
        shape = [-1 if size is None else size for size in each.shape]
        return {"name": each.name, "datatype": datatype_of(np.dtype(each.dtype)), "shape": shape}

    return {
        "name": name,
        "versions": [*versions],
        "platform": "paddle_inference",
        "inputs": [tensor(each) for each in model.inputs],
        "outputs": [tensor(each) for each in model.outputs],
    }


def datatype_of(dtype: Any) -> str:
    """As the protocol calls it."""
    return next(name for name, kind in DATATYPES.items() if np.dtype(kind) == dtype)

"""A program as JSON text and back: what `save_inference_model` writes as `__model__`. A decider."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.fluid.record.attributes import ParamAttr
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import Block, Parameter, RecordedOperation, RecordedProgram, Ref, Variable

if TYPE_CHECKING:
    from umiak.fluid.arguments import Argument, Arguments

FORMAT = "umiak.fluid/1"


def written(program: RecordedProgram, feeds: list[str], fetches: list[str], not_exported: str = "") -> str:
    """The text of a program, with what it is fed and what is fetched. ``not_exported``: why `paddle.inference` can't have it."""
    blocks = [
        {
            "parent": block.parent_idx,
            "variables": [_variable(each) for each in block.vars.values()],
            "operations": [
                {
                    "type": each.type,
                    "arguments": _plain(each.arguments)["dict"],
                    "outputs": list(each.outputs),
                    "site": each.site.rpartition("/")[2],
                }
                for each in block.ops
            ],
        }
        for block in program.blocks
    ]
    content = {"format": FORMAT, "feeds": feeds, "fetches": fetches, "not_exported": not_exported, "blocks": blocks}
    return json.dumps(content, indent=1)


def why_not_exported(text: str) -> str | None:
    """The reason that a program's text has; None if it is no such text."""
    try:
        content = json.loads(text)
        return str(content["not_exported"]) if content["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError):
        return None


def read(text: str) -> tuple[RecordedProgram, list[str], list[str]]:
    """A program from its text."""
    try:
        content = json.loads(text)
        known = content["format"] == FORMAT
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        why = "a `__model__` that Paddle 1.8 wrote is a protobuf message of its C++, which is not read yet"
        raise bad(
            "UM-FLUID-007", "this model was not written by umiak.fluid", "save it again from its program", why=why
        )
    program = RecordedProgram()
    program.for_test, program.blocks = True, []
    for index, each in enumerate(content["blocks"]):
        block = Block(program, index, each["parent"])
        program.blocks.append(block)
        for facts in each["variables"]:
            block.vars[facts["name"]] = _made(block, facts)
        block.ops = [
            RecordedOperation(
                type=one["type"],
                arguments={key: _full(argument) for key, argument in one["arguments"].items()},
                outputs=tuple(one["outputs"]),
                site=one["site"],
            )
            for one in each["operations"]
        ]
    return program, content["feeds"], content["fetches"]


def _variable(variable: Variable) -> Arguments:
    return {
        "name": variable.name,
        "shape": list(variable.shape),
        "dtype": variable.dtype,
        "lod_level": variable.lod_level,
        "persistable": variable.persistable,
        "stop_gradient": variable.stop_gradient,
        "parameter": isinstance(variable, Parameter),
    }


def _made(block: Block, facts: Arguments) -> Variable:
    name, shape, dtype = facts["name"], tuple(facts["shape"]), facts["dtype"]
    if facts["parameter"]:
        return Parameter(block, name, shape, dtype, ParamAttr())
    settings = {key: facts[key] for key in ("lod_level", "persistable", "stop_gradient")}
    return Variable(block, name, shape, dtype, **settings)


def _plain(argument: Argument) -> Any:
    if isinstance(argument, Ref):
        return {"ref": argument.name}
    if isinstance(argument, tuple):
        return {"tuple": [_plain(each) for each in argument]}
    if isinstance(argument, list):
        return [_plain(each) for each in argument]
    if isinstance(argument, dict):
        return {"dict": {key: _plain(each) for key, each in argument.items()}}
    if isinstance(argument, np.ndarray):
        return {"array": argument.tolist(), "dtype": str(argument.dtype)}
    if isinstance(argument, np.generic):
        return argument.item()
    if argument is None or isinstance(argument, bool | int | float | str):
        return argument
    raise bad(
        "UM-FLUID-007",
        f"a program with {argument!r} among its arguments can't be saved",
        "leave layers.py_func out of it",
    )


def _full(argument: Argument) -> Any:
    if isinstance(argument, list):
        return [_full(each) for each in argument]
    if not isinstance(argument, dict):
        return argument
    if "ref" in argument:
        return Ref(name=argument["ref"])
    if "tuple" in argument:
        return tuple(_full(each) for each in argument["tuple"])
    if "array" in argument:
        return np.asarray(argument["array"], argument["dtype"])
    return {key: _full(each) for key, each in argument["dict"].items()}

"""Every argument of fluid's surface has an effect, or stands in the table of those that have none. Real Paddle."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.support.fluid_programs import fluid
from tests.support.sources import SOURCE, python_files, text_of, tree
from umiak.fluid.kernels.registry import KERNELS
from umiak.fluid.modules import ROWS, resolved
from umiak.fluid.record import remarks
from umiak.fluid.record.signatures import ABOUT_THE_CALL, LAYERS
from umiak.fluid.surface.names import METHODS, NAMES
from umiak.fluid.surface.without_effect import REMARKED, SILENT

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

OURS = "umiak.fluid"
ABSTRACT = ("NotImplementedError", "refused", "refuse_mpi", "_say")
"""What a function that only refuses ends with."""
INTERFACES = ("operation", "sample", "next_inputs", "step", "finalize")
"""Methods that are called by us, of initializers, decoders and their helpers: one takes what another one needs."""
HANDED_ON = {"array_write": ("array",), "slots_shuffle": ("slots",), "set": ("place",)}
"""A kernel that has it from its frame; a method of one kind of dataset, which all others refuse; a device, as the table has it for LoDTensor."""
STORED = {
    "layer_type": "for people's own layers, as 1.8's helper has it",
    "sort_sum_gradient": "of BackwardStrategy, which changes nothing",
    "black_varnames": "of AutoMixedPrecisionLists, which decorate() remarks on",
    "white_list": "the same",
    "black_list": "the same",
    "_amp_lists": "the same",
    "__path__": "Python's own",
    "exec_strategy": "of DistributedStrategy: accepted, as that of with_data_parallel",
}
"""Attributes that nothing reads."""


@cache
def module_tree(path: str) -> ast.Module:
    return ast.parse(text_of(Path(path)))


@cache
def functions_by_line(path: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions of a module by name and first line, that of a decorator if there is one."""
    found = [each for each in ast.walk(module_tree(path)) if isinstance(each, ast.FunctionDef)]
    return {(each.name, min(line.lineno for line in (each, *each.decorator_list))): each for each in found}


def tree_of(function: FunctionType) -> ast.FunctionDef:
    """What a function does."""
    code = inspect.unwrap(function).__code__
    return functions_by_line(code.co_filename)[code.co_name, code.co_firstlineno]


def only_refuses(tree: ast.FunctionDef) -> bool:
    """Whether all that it does is to say that it does not work."""
    last = tree.body[-1]
    if isinstance(last, ast.Raise):
        return not any(isinstance(each, ast.Return) for each in ast.walk(tree)) and len(tree.body) <= 4
    call = last.value if isinstance(last, ast.Expr) else None
    name = call.func if isinstance(call, ast.Call) else None
    return isinstance(name, ast.Name) and name.id in ABSTRACT


def unread(function: FunctionType) -> list[str]:
    """The parameters that nothing in it reads. A kernel also reads what it asks its frame for by name."""
    tree = tree_of(function)
    if only_refuses(tree):
        return []
    given = tree.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [each.arg for each in (given.vararg, given.kwarg) if each is not None]
    inside = [each for line in tree.body for each in ast.walk(line)]
    read = {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    if names[:1] == ["frame"]:
        read |= {each.value for each in inside if isinstance(each, ast.Constant) and isinstance(each.value, str)}
        read.add("frame")
    return [name for name in names if name not in read and name not in ("self", "cls", "_error")]


def unread_settings(name: str, function: FunctionType) -> list[str]:
    """Of a layer that is one operation and whose kernel takes them as a dictionary: those that its module never names."""
    tree = tree_of(function)
    if tree.args.kwarg is None or name not in LAYERS:
        return []
    module = module_tree(str(sys.modules[function.__module__].__file__))
    named = {each.value for each in ast.walk(module) if isinstance(each, ast.Constant)}
    called = {each.func.id for each in ast.walk(tree) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}
    below = [each for each in module.body if isinstance(each, ast.FunctionDef) and each.name in called | {tree.name}]
    named |= {each.arg for one in below for each in ast.walk(one) if isinstance(each, ast.arg)}
    return [each for each in LAYERS[name].arguments if each not in named and each not in ABOUT_THE_CALL]


def functions_of(name: str, found: Any) -> Iterator[tuple[str, FunctionType]]:
    """A function, or the methods of a class or an object, with those of the classes above it that are ours."""
    if isinstance(found, FunctionType):
        if found.__module__.startswith(OURS):
            yield name, found
        return
    kind = found if isinstance(found, type) else type(found)
    for each in kind.__mro__:
        if not each.__module__.startswith(OURS):
            continue
        for key, attribute in vars(each).items():
            held = getattr(attribute, "__func__", attribute)
            if isinstance(held, FunctionType) and (not key.startswith("_") or key in ("__init__", "__call__")):
                yield (name if key == "__init__" else f"{name}.{key}"), held


def surface() -> Iterator[tuple[str, FunctionType]]:
    """All that programs can call, by name: layers of one row are their kernels."""
    modules = set()
    for name in NAMES:
        found = resolved(name)
        module = getattr(found, "__module__", None) or type(found).__module__
        if module.startswith(OURS):
            modules.add(module)
        yield from functions_of(name, found)
    for name in sorted(modules):
        module = __import__(name, fromlist=["*"])
        for key, found in vars(module).items():
            if (
                not key.startswith("_")
                and getattr(found, "__module__", "") == name
                and isinstance(found, type | FunctionType)
            ):
                yield from functions_of(f"{name}:{key}", found)
    for name, kernel in KERNELS.items():
        if kernel.function.__module__.startswith(OURS):  # others are Paddle's own
            yield f"layers.{name}", kernel.function


@cache
def all_unread() -> tuple[tuple[str, FunctionType, str], ...]:
    """Each function and argument that nothing reads."""
    return tuple(
        (name, function, each)
        for name, function in surface()
        for each in (*unread(function), *unread_settings(name.removeprefix("layers."), function))
    )


def known() -> set[tuple[Any, str]]:
    """The first table, by functions and not by names."""
    found = set()
    for names, arguments, _ in SILENT:
        for name in names.split():
            functions = [function for _, function in functions_named(name)]
            assert functions, name
            found |= {(each.__code__, argument) for each in functions for argument in arguments.split()}
    return found


def functions_named(name: str) -> Iterator[tuple[str, FunctionType]]:
    """The functions behind a name of the table: the function itself, `__init__` of a class, a method, or a kernel."""
    if name in NAMES:
        yield from ((each, function) for each, function in functions_of(name, resolved(name)) if each == name)
    elif name.rpartition(".")[0] in NAMES:
        held = getattr(resolved(name.rpartition(".")[0]), name.rpartition(".")[2])
        yield name, getattr(held, "__func__", held)
    last = name.rpartition(".")[2]
    if name.startswith("layers.") and last in KERNELS:
        yield f"{name} (kernel)", KERNELS[last].function


def test_an_argument_that_nothing_reads_is_in_the_table() -> None:
    allowed = known()
    found = {}
    for name, function, argument in all_unread():
        if function.__name__ in INTERFACES or argument in HANDED_ON.get(function.__name__, ()):
            continue
        if (function.__code__, argument) not in allowed:
            found.setdefault((function.__code__, argument), f"{name}({argument})")
    assert not found, "\n".join(sorted(found.values()))


def test_what_is_in_the_table_is_not_read() -> None:
    """A row for something that has its effect by now is wrong."""
    ignored = {(function.__code__, argument) for _, function, argument in all_unread()}
    wrong = []
    for names, arguments, _ in SILENT:
        for name in names.split():
            functions = [function for _, function in functions_named(name)]
            wrong += [
                f"{name}({argument})"
                for argument in arguments.split()
                if not any((function.__code__, argument) in ignored for function in functions)
            ]
    assert not wrong, "\n".join(wrong)


def calls_of_left_out() -> set[tuple[str, str]]:
    """Function and argument of each remark in the sources."""
    found = set()
    for path in (each for each in python_files() if "left_out(" in text_of(each)):
        for call in ast.walk(tree(path)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "left_out":
                name = call.args[0]
                if isinstance(name, ast.Constant):
                    found |= {(str(name.value), str(each.arg)) for each in call.keywords if each.arg}
    return found


def test_each_remark_is_made_somewhere() -> None:
    of_rows = {(name, argument) for name, argument, _, _ in REMARKED if name.removeprefix("layers.") in ROWS}
    rampup = {("optimizer.DGCMomentumOptimizer", each) for each in ("rampup_begin_step", "rampup_step", "sparsity")}
    assert {(name, argument) for name, argument, _, _ in REMARKED} - of_rows - rampup == calls_of_left_out()


@pytest.mark.parametrize(("name", "argument", "usual"), [row[:3] for row in REMARKED])
def test_a_remark_says_name_value_and_line_once(
    monkeypatch: pytest.MonkeyPatch, name: str, argument: str, usual: object
) -> None:
    monkeypatch.setattr(remarks, "_told", set())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for value in (usual, "odd", "odd"):
            if value is not ...:
                remarks.left_out(name, **{argument: value})
    (text,) = [str(each.message) for each in told]
    assert text.startswith(f"{__file__}:")
    assert f"{name}({argument}='odd') has no effect: " in text


def test_what_a_class_stores_is_read_somewhere() -> None:
    """Outside of fluid, only modules that have such a name somewhere are parsed."""
    inside = [path for path in python_files() if path.is_relative_to(SOURCE / "fluid")]
    stored: dict[str, str] = {}
    read: set[str] = set()
    for path in inside:
        attributes = [each for each in ast.walk(tree(path)) if isinstance(each, ast.Attribute)]
        read |= {each.attr for each in attributes if isinstance(each.ctx, ast.Load)}
        for each in attributes:
            if not isinstance(each.ctx, ast.Load) and isinstance(each.value, ast.Name) and each.value.id == "self":
                stored.setdefault(each.attr, f"{path.name}:{each.lineno}")
    left = {name for name in stored if name not in read and name not in STORED}
    looked_for = re.compile(rf"\.\s*(?:{'|'.join(sorted(left)) or '(?!)'})\b")
    for path in set(python_files()) - set(inside):
        if looked_for.search(text_of(path)):
            nodes = ast.walk(tree(path))
            read |= {each.attr for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load)}
    assert {name: place for name, place in stored.items() if name in left - read} == {}


def test_methods_of_fleets_are_looked_at() -> None:
    names = {name for name, _ in surface()}
    missing = [
        f"{holder}.{method}"
        for holder, methods in METHODS.items()
        for method in methods
        if isinstance(inspect.getattr_static(type(resolved(holder)), method, None), FunctionType)
        and not method.startswith("_")
        and f"{holder}.{method}" not in names
    ]
    assert missing == []
    assert fluid.layers is not None

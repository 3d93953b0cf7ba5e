"""What the text of a model's or a reader's file says, without running it. A decider.

    seen = look(text, "model.py")
    seen.problems           not Python; written for a framework that is gone
    seen.classes            names that may be classes: ``class Model``, ``from net import Model``, ``Model = build()``
    seen.hyper              the fields of ``Model.Hyper``, if the file itself says them all

Reading is quick and harmless; only running a file tells whether it can be imported.
"""

from __future__ import annotations

import ast

from umiak.core.problem import Problem
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FLUID = "paddle.fluid"
OLD = "UM-TRAIN-060"
"""The code of a problem with a file that is written for it."""
DYGRAPH = "DygraphModel"
"""The class of a model in the form of PaddleRec 2, which is run as it is."""
CREATE_OPTIMIZER = "create_optimizer"
ON_TABLES = ("SGD", "Momentum", "Adagrad", "Adam", "AdamW", "RMSProp")
"""Paddle's optimizers that tables learn by."""
_DYNAMIC = ("getattr", "eval", "importlib", "globals", "super")
"""What a method may take any class with."""
DYGRAPH_METHODS = ("create_model", "create_optimizer", "create_metrics", "train_forward")
"""Those that it can't do without."""
OLD_BASES = ("StaticModel",)
"""Classes of models in another form of PaddleRec 2."""
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
MODEL_BASE = "ModelBase"
"""The base of models in the form of PaddleRec 1.8.5: static programs of `paddle.fluid`, which are run as they are."""
_FORMER = "paddlerec"
PORT = "derive class Model from umiak.models.ClickModel (docs/reference/modeling.md); docs/how-to/move-from-paddlerec.md shows the steps"


@value
class Field:
    """A hyper-parameter of a model."""

    name: str
    is_optional: bool


@value
class Text:
    """What a file says."""

    problems: tuple[Problem, ...] = ()
    classes: tuple[str, ...] = ()
    hyper: tuple[Field, ...] | None = None
    """None: it is not said here, or not completely."""
    methods: tuple[str, ...] | None = None
    """Of class DygraphModel; None: it is not there, or has a base that may have more."""
    takes_everything: bool = False
    """Whether a star import may bring any name."""
    is_model_base: bool = False
    """Whether class Model is in the form of PaddleRec 1.8.5."""


def look(text: str | bytes, file: str, *, code: str = "UM-TRAIN-021") -> Text:
    """Read a file's text; ``code`` is that of a problem with it. What stands in a function, or where its absence is caught, is not looked at."""
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Text(problems=(_not_python(error, file, code),))
    body = [*_statements(tree.body)]
    of_old = _derives_from_model_base(body)
    problems = () if of_old else tuple(_old(file, node) for node in body if _names_fluid(node))
    return Text(
        problems=problems[:1],
        is_model_base=of_old,
        classes=tuple(dict.fromkeys(name for node in body for name in _bound(node))),
        hyper=_hyper(body),
        methods=_methods(body),
        takes_everything=any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in body),
    )


def is_dygraph(seen: Text) -> bool:
    """Whether a file's model is in the form of PaddleRec 2."""
    return DYGRAPH in seen.classes and "Model" not in seen.classes


def is_model_base(seen: Text) -> bool:
    """Whether a file's model is in the form of PaddleRec 1.8.5."""
    return seen.is_model_base


def lacking(seen: Text) -> list[str]:
    """Methods that training needs and a class DygraphModel does not have."""
    return [] if seen.methods is None else [each for each in DYGRAPH_METHODS if each not in seen.methods]


def line_of_optimizer(text: str) -> int | None:
    """Where a class DygraphModel makes its optimizer: the first line that names `paddle.optimizer`, or where the method begins."""
    method = _create_optimizer(text)
    if method is None:
        return None
    return min([node.lineno for node, _ in _named_optimizers(method)], default=method.lineno)


def named_optimizers(text: str) -> tuple[tuple[str, int], ...]:
    """The classes of `paddle.optimizer` that `create_optimizer` names, each with its line; none where it may take others as well."""
    method = _create_optimizer(text)
    if method is None or any(isinstance(node, ast.Name) and node.id in _DYNAMIC for node in ast.walk(method)):
        return ()
    return tuple([(name, node.lineno) for node, name in _named_optimizers(method)])


def _create_optimizer(text: str) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    kinds = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == DYGRAPH]
    methods = [node for kind in kinds for node in kind.body if isinstance(node, ast.FunctionDef)]
    return next((node for node in methods if node.name == CREATE_OPTIMIZER), None)


def _named_optimizers(method: ast.FunctionDef) -> list[tuple[ast.Attribute, str]]:
    """`paddle.optimizer.Adam`, `optimizer.Adam`; not `paddle.optimizer.lr`."""
    return [
        (node, node.attr)
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and node.attr[:1].isupper()
        and ast.unparse(node.value) in ("paddle.optimizer", "optimizer", "optim")
    ]


def missing(seen: Text, name: str, file: str, *, code: str, hint: str | None = None) -> Problem | None:
    """A problem if a file has no class of this name."""
    if name in seen.classes or seen.takes_everything or seen.problems:
        return None
    if name == "Model" and (older := [each for each in OLD_BASES if each in seen.classes]):
        why = f"{older[0]} is a static program, which `umiak launch` runs with PaddleRec's own static trainers"
        return Problem(code=code, what=f"{file} has no class {name}", why=why, hint=PORT, where=file)
    return Problem(code=code, what=f"{file} has no class {name}", hint=hint, where=file)


def _not_python(error: Exception, file: str, code: str) -> Problem:
    place = file
    if isinstance(error, SyntaxError) and error.lineno:
        place = f"{file}:{error.lineno}:{error.offset or 1}"
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return Problem(code=code, what=f"not Python: {type(error).__name__}: {said}", where=place)


def _old(file: str, node: ast.stmt) -> Problem:
    return Problem(
        code=OLD,
        what=f"the model is written for {FLUID}: `{ast.unparse(node)}`",
        why=f"PaddlePaddle has no {FLUID} since 2.5; of such files those are run as they are whose class Model is a paddlerec.core.model.{MODEL_BASE}",
        hint=PORT,
        where=f"{file}:{node.lineno}",
    )


def _names_fluid(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return any(each.name == FLUID or each.name.startswith(f"{FLUID}.") for each in node.names)
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        if node.module == "paddle":
            return any(each.name == "fluid" for each in node.names)
        return node.module == FLUID or node.module.startswith(f"{FLUID}.")
    return False


def _derives_from_model_base(body: list[ast.stmt]) -> bool:
    """Whether class Model is derived from `ModelBase`, over classes of this file, or over one of another file where this one names PaddleRec."""
    kinds = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    imported = {
        name for node in body if isinstance(node, ast.ImportFrom) and not _is_known(node) for name in _bound(node)
    }
    names_former = any(_names_former(node) for node in body)

    def derives(name: str, seen: frozenset[str]) -> bool:
        last = name.rpartition(".")[2]
        if last == MODEL_BASE:
            return True
        if last in kinds and last not in seen:
            return any(derives(ast.unparse(each), seen | {last}) for each in kinds[last].bases)
        return names_former and name in imported

    return "Model" in kinds and derives("Model", frozenset())


def _is_known(node: ast.ImportFrom) -> bool:
    return (node.module or "").partition(".")[0] in ("umiak", "paddle")


def _names_former(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return any(each.name.partition(".")[0] == _FORMER for each in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _FORMER


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """All that is run when the file is imported, short of what classes have in them."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.With):
            yield from _statements(node.body)
        elif isinstance(node, ast.Try):
            inner = [*node.orelse, *node.finalbody, *(each for handler in node.handlers for each in handler.body)]
            yield from _statements(inner if catches_imports(node) else [*node.body, *inner])
            if catches_imports(node):
                yield from (each for each in _statements(node.body) if not _names_fluid(each))


def catches_imports(node: ast.Try) -> bool:
    """Whether what can't be imported there stops nobody."""

    def caught(kind: ast.expr | None) -> bool:
        if isinstance(kind, ast.Tuple):
            return any(caught(each) for each in kind.elts)
        return kind is None or (isinstance(kind, ast.Name) and kind.id in _IMPORT_ERRORS)

    return any(caught(handler.type) for handler in node.handlers)


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names that a statement may bind to a class."""
    if isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (each.asname or each.name for each in node.names)
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _methods(body: Iterable[ast.stmt]) -> tuple[str, ...] | None:
    kind = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == DYGRAPH), None)
    if kind is None or any(ast.unparse(each) != "object" for each in kind.bases):
        return None
    return tuple([node.name for node in kind.body if isinstance(node, ast.FunctionDef)])


def _hyper(body: Iterable[ast.stmt]) -> tuple[Field, ...] | None:
    model = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
    kinds = [node for node in (model.body if model else ()) if isinstance(node, ast.ClassDef) and node.name == "Hyper"]
    if not kinds or kinds[0].bases or not kinds[0].decorator_list:
        return None
    return tuple(
        [
            Field(name=node.target.id, is_optional=node.value is not None and not _is_needed(node.value))
            for node in kinds[0].body
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and "ClassVar" not in ast.unparse(node.annotation)
        ]
    )


def _is_needed(default: ast.expr) -> bool:
    """``field()`` without a default."""
    if not isinstance(default, ast.Call) or ast.unparse(default.func) not in ("field", "dataclasses.field"):
        return False
    return not any(each.arg in ("default", "default_factory") for each in default.keywords)

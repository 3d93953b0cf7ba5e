"""Whether a reader of PaddleRec 2 reads its files one after the other, so that its samples can be divided by files. A decider.

    class RecDataset(IterableDataset):
        def __init__(self, file_list, config):
            self.file_list = file_list
        def __iter__(self):
            for file in self.file_list: ...

Only its text is looked at. Where it does anything else with the list (counts it, takes its first, goes through it in ``__init__``, where it may make a dictionary of
all words), a part of the files would give other samples: then each trainer runs it on all files and takes every N-th batch.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

CLASS = "RecDataset"
_BASES = ("IterableDataset", "paddle.io.IterableDataset", "io.IterableDataset")


def reads_one_by_one(text: str, name: str = CLASS) -> bool:
    """Whether the class of this name goes through its list of files, in ``__iter__`` or what it calls, and does nothing else with it."""
    import ast

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    kind = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)
    if kind is None or not all(ast.unparse(base) in _BASES for base in kind.bases):
        return False
    methods = {node.name: node for node in kind.body if isinstance(node, ast.FunctionDef)}
    made = methods.get("__init__")
    if made is None or "__iter__" not in methods or "__getitem__" in methods or len(made.args.args) < 2:
        return False
    attributes = _kept(made, made.args.args[1].arg)
    if attributes is None:
        return False
    early = _reached(methods, "__init__")
    uses = [(method, *use) for method in methods for use in _uses(methods[method], attributes)]
    return bool(uses) and all(is_loop and method not in early for method, is_loop in uses)


def _kept(made: ast.FunctionDef, parameter: str) -> set[str] | None:
    """The attributes that ``__init__`` keeps the list in; None if it does something else with it."""
    import ast

    attributes: set[str] = set()
    kept: set[int] = set()
    for node in ast.walk(made):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == parameter:
            for target in node.targets:
                if not (isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"):
                    return None
                attributes.add(target.attr)
            kept.add(id(node.value))
    others = [
        node for node in ast.walk(made) if isinstance(node, ast.Name) and node.id == parameter and id(node) not in kept
    ]
    return None if others or not attributes else attributes


def _uses(method: ast.FunctionDef, attributes: set[str]) -> Iterator[tuple[bool]]:
    """For each time that the list is read in a method, whether that is to go through it."""
    import ast

    loops = {id(node.iter) for node in ast.walk(method) if isinstance(node, (ast.For, ast.comprehension))}
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and node.attr in attributes and ast.unparse(node.value) == "self":
            if isinstance(node.ctx, ast.Store):
                if method.name != "__init__":
                    yield (False,)
            else:
                yield (id(node) in loops,)


def _reached(methods: dict[str, ast.FunctionDef], start: str) -> set[str]:
    """The methods that one calls, and those that these call."""
    import ast

    reached: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in methods:
            continue
        reached.add(name)
        waiting += [
            node.func.attr
            for node in ast.walk(methods[name])
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == "self"
        ]
    return reached

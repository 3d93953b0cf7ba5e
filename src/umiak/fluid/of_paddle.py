"""Functions of `paddle` itself that programs for 1.8 call with variables: each records an operation then, and is Paddle's own otherwise. A program."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umiak.fluid.arguments import Function, Input, Output

NAMES = ("norm",)


def install() -> None:
    """Put them into `paddle`, if it is imported. Twice is fine."""
    paddle = sys.modules.get("paddle")
    for name in NAMES:
        theirs = getattr(paddle, name, None)
        if theirs is not None and not getattr(theirs, "takes_variables", False):
            setattr(paddle, name, _for_both(theirs, globals()[name]))


def _for_both(theirs: Function, ours: Function) -> Function:
    from umiak.fluid.record.program import Variable

    @wraps(theirs)
    def function(*given: Any, **named: Any) -> Any:
        first = given[0] if given else next((named[key] for key in ("x", "input") if key in named), None)
        return (ours if isinstance(first, Variable) else theirs)(*given, **named)

    function.takes_variables = True  # type: ignore[attr-defined]
    return function


def norm(input: Input, p: float | str = "fro", axis: Any = None, keepdim: bool = False, out: Input = None, name: str | None = None) -> Output:  # fmt: skip
    """`paddle.norm` of 1.8: of everything as [1], of vectors along an axis, or of matrices along two."""
    from umiak.fluid.record.recording import apply

    axes = list(axis) if isinstance(axis, list | tuple) else axis
    return apply("norm", {"input": input, "p": p, "axis": axes, "keepdim": keepdim}, name=name, out=out)

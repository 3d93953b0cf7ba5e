"""Names for objects of Paddle in signatures. Values.

Paddle's annotations can't be used: much of what is called here is private or patched, and it need not be installed where types are checked. So
these names tell people what an argument is, and nothing to the type checker.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    Tensor: TypeAlias = Any
    Parameter: TypeAlias = Any
    Layer: TypeAlias = Any
    Optimizer: TypeAlias = Any
    Program: TypeAlias = Any
    Block: TypeAlias = Any
    Variable: TypeAlias = Any
    Operation: TypeAlias = Any
    Scope: TypeAlias = Any
    Executor: TypeAlias = Any
    Dataset: TypeAlias = Any
    Setting: TypeAlias = Any
    """Of an optimizer, a strategy or a call: a number, a text, a list, a tensor, a scheduler."""
    RoleMaker: TypeAlias = Any
    DistributedStrategy: TypeAlias = Any
    Fleet: TypeAlias = Any
    Message: TypeAlias = Any
    """Of protobuf."""
    Fed: TypeAlias = Any
    """An array, a pair (values, offsets), a list, or a tensor."""
    Fetched: TypeAlias = Any
    """A tensor, or an array."""
    Context: TypeAlias = Any
    """Of a `PyLayer`."""
    Variables: TypeAlias = Variable | str | Sequence[Variable | str] | None
    """Several, or one: themselves, or their names."""
    Call: TypeAlias = Callable[..., Any]
    """A function or a method of Paddle's, or what is put in its place."""

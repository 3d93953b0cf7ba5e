"""Names for arguments and results of fluid's functions in signatures. Values.

Programs for 1.8 give them in many forms, and Paddle's types can't be checked; so these names tell people what an argument is, and nothing to
the type checker.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Input: TypeAlias = Any
    """A variable of the program, a number, or a tensor inside `dygraph.guard`."""
    Inputs: TypeAlias = Any
    """One of them, or a list."""
    Output: TypeAlias = Any
    """A variable, or a tensor inside `dygraph.guard`; several are a tuple or a list."""
    Outputs: TypeAlias = list[Any]
    Shape: TypeAlias = Any
    """Numbers, -1 or None among them, or variables."""
    Sizes: TypeAlias = Any
    """A number for all dimensions, or one for each; a padding may be a name as well."""
    DType: TypeAlias = Any
    """A name, a type of numpy or one of Paddle."""
    Attr: TypeAlias = Any
    """Of a parameter: a `ParamAttr`, a name, an initializer, a regularizer, or False for none."""
    Act: TypeAlias = Any
    """An activation: a name, or a dictionary with its settings."""
    Value: TypeAlias = Any
    """A number, an array, or a list of them."""
    Rate: TypeAlias = Any
    """Of learning: a number or a variable."""
    Penalty: TypeAlias = Any
    """A regularizer."""
    Clip: TypeAlias = Any
    """A clip of gradients."""
    Pairs: TypeAlias = list[Any]
    """Parameters and their gradients."""
    Names: TypeAlias = Any
    """Variables, or their names."""
    Place: TypeAlias = Any
    """A device, or several."""
    Folder: TypeAlias = Any
    """A path as a text or a `Path`."""
    Reader: TypeAlias = Any
    """A function that returns rows or batches."""
    Results: TypeAlias = Any
    """Of a kernel: one tensor, or several."""
    Feeds: TypeAlias = Any
    """One feed, a list of them, one for each device, or nothing."""
    Feed: TypeAlias = dict[str, Any]
    """What a run is given, by the names of variables."""
    Argument: TypeAlias = Any
    """Of a recorded operation: a reference to a variable, a number, a text, or a list of such."""
    Arguments: TypeAlias = dict[str, Any]
    """All of one operation, by the names of 1.8."""
    Settings: TypeAlias = Any
    """A strategy or a dictionary."""
    AnyProgram: TypeAlias = Any
    """A program, a compiled one, or None for the default."""
    Function: TypeAlias = Callable[..., Any]
    """A function of the user's program."""

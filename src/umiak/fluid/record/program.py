"""A program of `paddle.fluid` as a value: blocks of recorded operations and the variables that they read and write. Values.

Operations are never changed once recorded, so a clone shares them. What a program computes is in `umiak.fluid.running`.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, ClassVar

from umiak.core.value import replace, value
from umiak.fluid.record.problems import bad

if TYPE_CHECKING:
    from umiak.fluid.arguments import Argument, Arguments, Attr, Input, Output, Outputs, Settings, Shape, Value

FORWARD, BACKWARD, OPTIMIZE = "forward", "backward", "optimize"
GRADIENT = "@GRAD"


@value
class Ref:
    """A variable among the arguments of an operation."""

    name: str


@value
class RecordedOperation:
    """One operation: its type, its arguments by the names of fluid 1.8, the variables that it writes, and who added it."""

    type: str
    arguments: Arguments
    outputs: tuple[str, ...]
    site: str
    role: str = FORWARD

    @property
    def input_names(self) -> list[str]:
        """The variables that it reads, in their order."""
        return references(list(self.arguments.values()))

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={_shown(argument)}" for name, argument in self.arguments.items())
        file, _, line = self.site.rpartition(":")
        return f"{', '.join(self.outputs) or '-'} = {self.type}({arguments})  # {file.rpartition('/')[2]}:{line}"

    # As fluid's Operator is asked:
    @property
    def input_arg_names(self) -> list[str]:
        return self.input_names

    @property
    def output_arg_names(self) -> list[str]:
        return list(self.outputs)

    def attr(self, name: str) -> Argument:
        """An argument that is no variable."""
        return self.arguments[name]

    def has_attr(self, name: str) -> bool:
        return name in self.arguments


def references(argument: Argument) -> list[str]:
    """The names of the variables in an argument, however deep in lists."""
    if isinstance(argument, Ref):
        return [argument.name]
    if isinstance(argument, list | tuple):
        return [name for each in argument for name in references(each)]
    if isinstance(argument, dict):
        return [name for each in argument.values() for name in references(each)]
    return []


def _shown(argument: Argument) -> str:
    if isinstance(argument, Ref):
        return argument.name
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(_shown, argument))}]"
    text = repr(argument)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _binary(type_: str, *, turned: bool = False) -> Any:
    def method(self: Variable, other: Input) -> Output:
        first, second = (other, self) if turned else (self, other)
        return Variable.record("binary", {"x": first, "y": second, "kind": type_})

    return method


class Variable:
    """What an operation writes, or a program is fed with. -1 in its shape is the batch, or what follows from it."""

    record: ClassVar[Any]
    """Records an operation, for the operators of Python: `recording.apply`, which stands above this module."""

    def __init__(
        self,
        block: Block,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        *,
        lod_level: int = 0,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
    ) -> None:
        self.block, self.name, self.dtype = block, name, dtype
        self.shape, self.lod_level, self.is_data = tuple(shape), lod_level, is_data
        self._persistable, self._stop_gradient = persistable, stop_gradient
        self.checked = False
        """Whether the shape of what is fed is compared with its own."""
        self.error_clip: Any = None
        self.samples: Any = None
        """What it was in the trial runs that found its shape; None if that is not kept."""

    @property
    def persistable(self) -> bool:
        """Whether it stays in the scope from one run to the next."""
        return self._persistable

    @persistable.setter
    def persistable(self, value: bool) -> None:
        self._persistable = value
        self.block.program.changed()

    @property
    def stop_gradient(self) -> bool:
        """Whether no gradient goes through it."""
        return self._stop_gradient

    @stop_gradient.setter
    def stop_gradient(self, value: bool) -> None:
        self._stop_gradient = value
        self.block.program.changed()

    def _set_error_clip(self, error_clip: Any) -> None:
        """Bounds of the gradient that goes through it: a `clip.ErrorClipByValue`, or None."""
        self.error_clip = error_clip
        self.block.program.changed()

    @property
    def type(self) -> str:
        return "lod_tensor"

    def astype(self, dtype: str) -> Output:
        """The same values in another type."""
        return Variable.record("cast", {"x": self, "dtype": dtype})

    def __getitem__(self, index: Input) -> Output:
        return Variable.record("getitem", {"x": self, "index": index})

    def __iter__(self) -> Any:
        if not self.shape or self.shape[0] < 0:
            raise bad(
                "UM-FLUID-004",
                f"iterating over {self}: its first dimension is known only when it runs",
                "use layers.split or layers.unstack",
            )
        return (self[place] for place in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.shape or self.shape[0] < 0:
            raise bad(
                "UM-FLUID-004", f"len of {self}: its first dimension is known only when it runs", "use layers.shape"
            )
        return self.shape[0]

    def __bool__(self) -> bool:
        """Programs ask whether they were given one, as in 1.8; conditions are refused, which 1.8 took for true."""
        if self.dtype != "bool":
            return True
        what = f"the truth of {self.name} is known only when the program runs"
        raise bad("UM-FLUID-004", what, "use layers.cond, layers.case or layers.Switch")

    def __neg__(self) -> Output:
        return Variable.record("scale", {"x": self, "scale": -1.0, "bias": 0.0, "bias_after_scale": True})

    __add__, __radd__ = _binary("add"), _binary("add", turned=True)
    __sub__, __rsub__ = _binary("sub"), _binary("sub", turned=True)
    __mul__, __rmul__ = _binary("mul"), _binary("mul", turned=True)
    __truediv__, __rtruediv__ = _binary("div"), _binary("div", turned=True)
    __pow__, __rpow__ = _binary("pow"), _binary("pow", turned=True)
    __floordiv__, __mod__ = _binary("floordiv"), _binary("mod")
    __lt__, __le__ = _binary("less_than"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater_than"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __hash__ = object.__hash__

    def __str__(self) -> str:
        lod = f", lod_level {self.lod_level}" if self.lod_level else ""
        kept = ", persistable" if self.persistable else ""
        return f"{self.name}: {self.dtype}{list(self.shape)}{lod}{kept}"

    __repr__ = __str__

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """What `print` shows."""
        return str(self)

    def copy_into(self, block: Block) -> Variable:
        """The same in another program."""
        new = copy.copy(self)
        new.block = block
        return new


class Parameter(Variable):
    """What a program learns."""

    def __init__(self, block: Block, name: str, shape: tuple[int, ...], dtype: str, attribute: Attr) -> None:
        super().__init__(block, name, shape, dtype, persistable=True)
        self.trainable: bool = attribute.trainable
        self.optimize_attr = {"learning_rate": attribute.learning_rate}
        self.regularizer = attribute.regularizer
        self.gradient_clip_attr = attribute.gradient_clip
        self.do_model_average = attribute.do_model_average
        self.is_distributed = False
        self.is_server_table = False
        """Whether its rows are never all in one process: `contrib.layers.sparse_embedding`."""
        self.entry: Any = None
        """What admits a row there; None is any id."""
        self._stop_gradient = not attribute.trainable

    def __setattr__(self, name: str, value: Value) -> None:
        super().__setattr__(name, value)
        if name == "trainable" and hasattr(self, "_stop_gradient"):
            self.stop_gradient = not value


class Block:
    """Operations in their order, and their variables; a part of a program, or all of it."""

    def __init__(self, program: RecordedProgram, idx: int, parent_idx: int) -> None:
        self.program, self.idx, self.parent_idx = program, idx, parent_idx
        self.vars: dict[str, Variable] = {}
        self.ops: list[RecordedOperation] = []

    def add(self, variable: Variable) -> Variable:
        """A new variable."""
        self.vars[variable.name] = variable
        self.program.changed()
        return variable

    def append(self, operation: RecordedOperation, *, first: bool = False) -> None:
        """A new operation, at the end or at the beginning."""
        self.ops.insert(0 if first else len(self.ops), operation)
        self.program.changed()

    def find(self, name: str) -> Variable | None:
        """A variable of this block or of one around it."""
        block: Block | None = self
        while block is not None:
            if name in block.vars:
                return block.vars[name]
            block = self.program.blocks[block.parent_idx] if block.parent_idx >= 0 else None
        return None

    def has_var(self, name: str) -> bool:
        return name in self.vars

    def var(self, name: str) -> Variable:
        """A variable by its name; a ValueError if there is none, as fluid has it."""
        if name not in self.vars:
            raise ValueError(f"var {name} not in this block")
        return self.vars[name]

    def create_var(self, name: str, shape: Shape = (), dtype: str = "float32", **settings: Settings) -> Variable:
        """A variable that no operation of the record writes yet."""
        known = {
            key: settings[key] for key in ("lod_level", "persistable", "stop_gradient", "is_data") if key in settings
        }
        return self.add(Variable(self, name, tuple(shape), str(dtype), **known))

    def all_parameters(self) -> list[Parameter]:
        return [variable for variable in self.vars.values() if isinstance(variable, Parameter)]

    def iter_parameters(self) -> Any:
        return iter(self.all_parameters())


class RecordedProgram:
    """`fluid.Program`: a list of operations that is recorded once and replayed often."""

    _numbers = itertools.count()

    def __init__(self) -> None:
        self.number = next(self._numbers)
        self.blocks = [Block(self, 0, -1)]
        self.current_block_idx = 0
        self.version = 0
        self._random_seed = 0
        self.for_test = False
        self.loaders: Outputs = []
        """Loaders that feed this program themselves, once they are started."""
        self.runner: Any = None
        """What runs it in place of the executor, in a job of several processes. Copies have none."""

    def changed(self) -> None:
        """What was prepared for running does not hold any more."""
        self.version += 1

    @property
    def random_seed(self) -> int:
        """Zero is a different chance in every process; otherwise two runs of the program's process are alike."""
        return self._random_seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if not isinstance(seed, int):
            raise bad("UM-FLUID-001", f"Program.random_seed: expected an integer, got {seed!r}")
        self._random_seed = seed

    def global_block(self) -> Block:
        return self.blocks[0]

    def current_block(self) -> Block:
        return self.blocks[self.current_block_idx]

    def block(self, index: int) -> Block:
        return self.blocks[index]

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    def new_block(self) -> Block:
        """A block inside the current one, which becomes the current one; `leave_block` goes back."""
        block = Block(self, len(self.blocks), self.current_block_idx)
        self.blocks.append(block)
        self.current_block_idx = block.idx
        return block

    def leave_block(self) -> None:
        """The current block is complete."""
        self.current_block_idx = self.blocks[self.current_block_idx].parent_idx

    def all_parameters(self) -> list[Parameter]:
        return [parameter for block in self.blocks for parameter in block.all_parameters()]

    def list_vars(self) -> Any:
        return (variable for block in self.blocks for variable in block.vars.values())

    def clone(self, for_test: bool = False) -> RecordedProgram:
        """The same program; with ``for_test`` without what learns, and as dropout and batch_norm are when they are tested."""
        new = RecordedProgram()
        new.random_seed, new.for_test = self._random_seed, self.for_test or for_test
        new.loaders = list(self.loaders)
        new.blocks = []
        for block in self.blocks:
            copied = Block(new, block.idx, block.parent_idx)
            copied.vars = {name: variable.copy_into(copied) for name, variable in block.vars.items()}
            kept = [each for each in block.ops if not for_test or each.role == FORWARD]
            copied.ops = [_for_test(each) if for_test else each for each in kept]
            new.blocks.append(copied)
        return new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedProgram) and self._facts() == other._facts()

    __hash__ = object.__hash__

    def _facts(self) -> list[Any]:
        """What two programs are compared by: not the lines that added the operations."""
        facts: list[Any] = []
        for block in self.blocks:
            facts += [(name, str(variable)) for name, variable in sorted(block.vars.items())]
            facts += [repr(replace(each, site="")) for each in block.ops]
        return facts

    def __str__(self) -> str:
        lines = []
        for block in self.blocks:
            lines.append(f"block {block.idx}" + (f" in {block.parent_idx}" if block.parent_idx >= 0 else ""))
            lines += [f"  {'param' if isinstance(each, Parameter) else 'var'} {each}" for each in block.vars.values()]
            lines += [f"  {operation}" for operation in block.ops]
        return "\n".join(lines)

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """What `print` shows."""
        return str(self)


def _for_test(operation: RecordedOperation) -> RecordedOperation:
    if operation.arguments.get("is_test") is False:
        return replace(operation, arguments={**operation.arguments, "is_test": True})
    return operation

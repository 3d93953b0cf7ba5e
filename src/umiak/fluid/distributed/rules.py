"""How each parameter of a minimized program learns, as the servers know it: rule, limits, decay, rate. A decider.

    found = learning_of(program, startup, world=2, averages=True)
    found.parameters["fc_0.w_0"].rule     ->  Adam(learning_rate=0.001)

An optimizer's operation is followed back through the regularizer and the clip to the gradient of the backward pass. What servers do with a
gradient (decay, limits by value) leaves the program; what needs a whole gradient (limits by norm) is done by the trainer before it sends.
What can't be done as in one process is a problem that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.fluid.kernels.learning import RATES
from umiak.fluid.record.program import BACKWARD, OPTIMIZE, Ref
from umiak.ps import specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from umiak.fluid.arguments import Arguments
    from umiak.fluid.record.program import RecordedOperation, RecordedProgram

KNOWN = "SGD, Momentum, Adagrad, Adam, RMSProp and Ftrl"
OPTIMIZERS = (
    *("sgd", "momentum", "adagrad", "adam", "rmsprop", "ftrl"),
    *("lars_momentum", "decayed_adagrad", "adamax", "adadelta", "lamb"),
)
"""Operations that change a parameter by its gradient."""
CLIPS = ("clip_gradient", "clip_gradient_norm", "clip_by_global_norm")
_TINY = 1e-10
"""What 1.8 adds to both penalties of FTRL."""
_NEXT_TO_NOTHING = 1e-12
_NO_BETA = 1e-30
"""Servers want one above zero; beside the root of a sum of squares it is nothing."""


@value
class LearnedParameter:
    """A parameter, and what happens to its gradient."""

    name: str
    shape: tuple[int, ...]
    gradient: str
    """The variable whose value is sent."""
    raw: str
    """The one that the backward pass writes; the same unless the trainer's program changes it before."""
    rule: specs.Rule
    clip: specs.Clip = specs.Clip()
    decay: specs.Decay = specs.Decay()
    norm: float | None = None
    """The length that the whole gradient is scaled down to."""
    is_global: bool = False
    """Whether it takes part where all gradients are scaled down together."""
    rate: str = ""
    """The variable with the learning rate."""
    factor: float = 1.0
    """What that is multiplied by."""


@value
class MinimizedLearning:
    """All of a program."""

    parameters: Mapping[str, LearnedParameter] = {}
    global_norm: float | None = None
    """The length that all gradients together are scaled down to."""
    rates: tuple[str, ...] = ()
    """Variables with learning rates."""
    states: frozenset[str] = frozenset()
    """Variables of optimizers, such as moments, which the servers keep."""
    done_elsewhere: frozenset[int] = frozenset()
    """Places of operations of the main block that trainers do not run."""
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def is_update(operation: RecordedOperation) -> bool:
    """Whether an operation changes a parameter by its gradient, be it one that servers know or not."""
    arguments = operation.arguments
    is_one = operation.role == OPTIMIZE and "gradient" in arguments and isinstance(arguments.get("parameter"), Ref)
    return is_one and arguments["parameter"].name in operation.outputs


def is_minimized(program: RecordedProgram) -> bool:
    """Whether a program learns."""
    return any(map(is_update, program.global_block().ops))


def learning_of(program: RecordedProgram, startup: RecordedProgram, *, averages: bool) -> MinimizedLearning:
    """What a program says. ``averages``: several trainers' gradients are averaged before they count, as in sync."""
    return _Reading(program, startup, averages=averages).result()


class _Reading:
    """One look at one program."""

    def __init__(self, program: RecordedProgram, startup: RecordedProgram, *, averages: bool) -> None:
        self._ops = program.global_block().ops
        self._block = program.global_block()
        self._startup = startup
        self._averages = averages
        self._found: dict[str, LearnedParameter] = {}
        self._problems: list[Problem] = []
        self._remarks: list[str] = []
        self._norms: dict[int, float] = {}
        """Of each operation that scales all gradients down together."""

    def result(self) -> MinimizedLearning:
        updates = [place for place, each in enumerate(self._ops) if is_update(each)]
        for place in updates:
            self._read(place)
        if len(self._norms) > 1:
            what = "GradientClipByGlobalNorm is used for several groups of parameters"
            self._wrong(
                what,
                "servers scale all gradients of a program down together: use one group",
                self._ops[min(self._norms)],
            )
        if self._averages:
            self._refuse_norms()
        sent = {each.gradient for each in self._found.values()}
        spare = frozenset(self._spare(updates, sent))
        self._refuse_wrappers(spare)
        return MinimizedLearning(
            parameters=self._found,
            global_norm=next(iter(self._norms.values()), None),
            rates=tuple(dict.fromkeys(each.rate for each in self._found.values())),
            states=frozenset(name for place in updates for name in self._ops[place].outputs[1:]),
            done_elsewhere=spare,
            remarks=tuple(dict.fromkeys(self._remarks)),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    def _read(self, place: int) -> None:
        update = self._ops[place]
        name = update.arguments["parameter"].name
        rule = _rule(update, self._first_value)
        if rule is None:
            self._wrong(f"parameter servers have no rule for the optimizer {update.type}", f"they have {KNOWN}", update)
            return
        if name in self._found:
            self._wrong(
                f"parameter {name} is learned by two optimizers", "give each its own with parameter_list=", update
            )
            return
        parameter = self._block.vars[name]
        if parameter.dtype != "float32":
            self._wrong(f"parameter {name} is {parameter.dtype}", "parameter servers learn in float32", update)
            return
        learned = LearnedParameter(name=name, shape=tuple(parameter.shape), gradient="", raw="", rule=rule, rate=update.arguments["rate"].name, factor=update.arguments["factor"])  # fmt: skip
        self._found[name] = self._followed(learned, update.arguments["gradient"].name, place)

    def _followed(self, made: LearnedParameter, gradient: str, place: int) -> LearnedParameter:
        """With what happens between the backward pass and the update, from the end: first decay, then limits."""
        operation, place = self._writer(gradient, place)
        if operation is not None and operation.type == "decay":
            coefficient = float(operation.arguments["coefficient"])
            is_squares = operation.arguments["power"] == 2
            made = replace(made, decay=specs.Decay(l2=coefficient) if is_squares else specs.Decay(l1=coefficient))
            if isinstance(made.rule, specs.Ftrl):
                self._wrong(
                    f"parameter {made.name}: Ftrl with a regularizer",
                    "Ftrl has penalties of its own: l1= and l2=",
                    operation,
                )
            gradient = operation.arguments["gradient"].name
            operation, place = self._writer(gradient, place)
        if operation is not None and operation.type in CLIPS:
            limited = self._limited(made, operation, place)
            if limited is not None:
                made = limited
                gradient = _clipped_input(operation, gradient)
                operation, place = self._writer(gradient, place)
        raw = gradient
        while operation is not None and operation.role == OPTIMIZE:
            # Something of the program's own: the trainer does it, as long as it is about one gradient.
            before = [name for name in operation.input_names if self._is_gradient(name, place)]
            if len(before) != 1:
                self._wrong(
                    f"what {operation.type} makes of gradients of {made.name} can't be done by servers",
                    "leave it out",
                    operation,
                )
                break
            (raw,) = before
            operation, place = self._writer(raw, place)
        return replace(made, gradient=gradient, raw=raw)

    def _limited(self, made: LearnedParameter, clip: RecordedOperation, place: int) -> LearnedParameter | None:
        """With the limits that a clip sets; None if the trainer does it."""
        if clip.type == "clip_gradient":
            low, high = clip.arguments["min"], clip.arguments["max"]
            return replace(made, clip=specs.Clip(value=high)) if low == -high and high > 0 else None
        if clip.type == "clip_gradient_norm":
            return replace(made, norm=clip.arguments["clip_norm"])
        self._norms[place] = clip.arguments["clip_norm"]
        return replace(made, is_global=True)

    def _refuse_norms(self) -> None:
        """The norm of a mean of gradients is known to nobody: each trainer has its own part of it."""
        for operation in self._ops:
            is_uneven = operation.type == "clip_gradient" and operation.arguments["min"] != -operation.arguments["max"]
            if operation.type in CLIPS[1:] or is_uneven:
                name = {
                    "clip_gradient": "GradientClipByValue with two bounds",
                    "clip_gradient_norm": "GradientClipByNorm",
                }
                what = f"{name.get(operation.type, 'GradientClipByGlobalNorm')} in sync with several trainers"
                why = "servers average the gradients of all trainers, and no one knows the length of the mean before it is applied"
                hint = "GradientClipByValue(max) is done by the servers; async, half_async and geo clip what each trainer sends"
                self._wrong(what, hint, operation, why=why)
                return

    def _refuse_wrappers(self, spare: frozenset[int]) -> None:
        """What an optimizer around another one does with parameters: servers have the newer ones."""
        for place, operation in enumerate(self._ops):
            if operation.role == OPTIMIZE and place not in spare and operation.type != "decay":
                touched = [name for name in (*operation.input_names, *operation.outputs) if name in self._found]
                if touched:
                    what = f"{operation.type} works with {touched[0]} beside its optimizer, and servers keep that parameter"
                    self._wrong(what, "leave the wrapped optimizer, or the averages, out", operation)
                    return

    def _writer(self, name: str, place: int) -> tuple[RecordedOperation | None, int]:
        """What last wrote a variable before a place; None if that is the backward pass, or nothing."""
        for before in range(place - 1, -1, -1):
            operation = self._ops[before]
            if name in operation.outputs:
                return (None if operation.role == BACKWARD else operation), before
        return None, place

    def _is_gradient(self, name: str, place: int) -> bool:
        writer, _ = self._writer(name, place)
        return (writer is None and name.endswith("@GRAD")) or (
            writer is not None and writer.role == OPTIMIZE and not self._block.vars[name].persistable
        )

    def _spare(self, updates: list[int], sent: set[str]) -> Iterator[int]:
        """Updates, and what only they need."""
        yield from updates
        dropped = set(updates)
        wanted = set(sent)
        for place in range(len(self._ops) - 1, -1, -1):
            operation = self._ops[place]
            if place in dropped:
                continue
            keeps = any(name in wanted or self._is_kept(name) for name in operation.outputs)
            if operation.role == OPTIMIZE and not keeps:
                yield place
                continue
            wanted.update(operation.input_names)

    def _is_kept(self, name: str) -> bool:
        variable = self._block.vars.get(name)
        return variable is None or variable.persistable

    def _first_value(self, name: str) -> float | None:
        return _constant(self._startup, name)

    def _wrong(self, what: str, hint: str, operation: RecordedOperation, *, why: str | None = None) -> None:
        self._problems.append(Problem(code="UM-FLUID-010", what=what, why=why, hint=hint, where=operation.site))


def _clipped_input(clip: RecordedOperation, output: str) -> str:
    if clip.type != "clip_by_global_norm":
        return str(clip.arguments["gradient"].name)
    return str(clip.arguments["gradients"][clip.outputs.index(output)].name)


def _rule(update: RecordedOperation, first_value: Callable[[str], float | None]) -> specs.Rule | None:
    """What an optimizer's operation is on the servers, with a learning rate of one."""
    given: Arguments = update.arguments
    match update.type:
        case "sgd":
            return specs.Sgd(1.0)
        case "momentum":
            return specs.Momentum(1.0, given["mu"], bool(given["nesterov"]))
        case "adagrad":
            return specs.Adagrad(1.0, first_value(given["moment"].name) or 0.0, given["epsilon"])
        case "adam":
            return specs.Adam(1.0, given["beta1"], given["beta2"], given["epsilon"])
        case "rmsprop":
            return specs.RmsProp(1.0, given["rho"], given["epsilon"], given["mu"], bool(given["centered"]))
        case "ftrl" if given["power"] == -0.5:
            # 1.8's has no beta, and twice the second penalty in the denominator.
            return specs.Ftrl(1.0, _NO_BETA, given["l1"] + _TINY, 2 * (given["l2"] + _TINY))
    return None


def first_rate(program: RecordedProgram, startup: RecordedProgram, name: str) -> float:
    """What a learning rate is in the first step. Servers have it before the first trainer says a rate, since another one may be faster.

    Nearly nothing, if it is 0 or the program computes it in a manner of its own: then what comes before the first trainer's word moves nothing.
    """
    return _first_rate(program, startup, name) or _NEXT_TO_NOTHING


def _first_rate(program: RecordedProgram, startup: RecordedProgram, name: str) -> float | None:
    for operation in program.global_block().ops:
        if name not in operation.outputs or operation.type not in ("learning_rate", "warmup"):
            continue
        given = operation.arguments
        step = _first_step(program, startup, given["counter"].name)
        if operation.type == "learning_rate":
            return float(RATES[given["kind"]](step, *given["settings"]))
        if step < given["warmup_steps"]:
            return float(given["start"] + (given["end"] - given["start"]) * step / given["warmup_steps"])
        rate = given["rate"]
        return _first_rate(program, startup, rate.name) if isinstance(rate, Ref) else float(rate)
    return _constant(startup, name)


def _first_step(program: RecordedProgram, startup: RecordedProgram, counter: str) -> float:
    """What a counter of steps is in the first one."""
    counted = sum(each.arguments["step"] for each in program.global_block().ops if each.type == "count_steps" and counter in each.outputs)  # fmt: skip
    return float(counted + (_constant(startup, counter) or 0))


def _constant(startup: RecordedProgram, name: str) -> float | None:
    for operation in startup.global_block().ops:
        if name in operation.outputs and operation.type == "fill_constant":
            return float(operation.arguments["value"])
    return None


def with_rate(rule: specs.Rule, rate: float) -> specs.Rule:
    """A rule that learns at this rate."""
    return rule if isinstance(rule, specs.Sum) else replace(rule, learning_rate=rate)

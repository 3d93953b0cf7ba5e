"""What a table is: typed values that become the JSON which the native core checks. Values and a decider.

    SparseTable(dim=16, rule=Adam(learning_rate=1e-3))             rows by key
    DenseTable(arrays=(Array(name="fc.w", shape=(400, 1)),))       named arrays, laid end to end
    paddle_rule("std-adagrad")                                     a rule by the name that PaddleRec has for it

Every rule is computed on the servers in float32, in a fixed order; what each does is said beside it. Two tables with equal
specs can exchange rows and checkpoints.
"""

from __future__ import annotations

import math

from umiak.core.value import fields, is_value, positional_value, value
from umiak.ps.errors import bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

__all__ = [
    "Accessor",
    "Adagrad",
    "AdagradScaled",
    "AdagradShared",
    "Adam",
    "AdamRow",
    "Always",
    "Array",
    "Clip",
    "Constant",
    "Count",
    "Decay",
    "DenseTable",
    "Expire",
    "Ftrl",
    "Momentum",
    "Normal",
    "Probability",
    "RmsProp",
    "Score",
    "Sgd",
    "SparseTable",
    "Sum",
    "Uniform",
    "paddle_rule",
]
"""What `umiak.ps` has of these."""

_MOST = 3.4028234663852886e38
"""The largest float32."""

# ---- how a gradient changes a row


@positional_value
class Sgd:
    """``w -= lr * g``"""

    learning_rate: float = 0.01


@positional_value
class Momentum:
    """``v = momentum * v + g; w -= lr * v``; with ``nesterov`` ``w -= lr * (g + momentum * v)``"""

    learning_rate: float = 0.01
    momentum: float = 0.9
    nesterov: bool = False


@positional_value
class Adagrad:
    """The textbook's: ``G += g * g; w -= lr * g / (sqrt(G) + epsilon)``, with G starting at ``initial``"""

    learning_rate: float = 0.05
    initial: float = 0.0
    epsilon: float = 1e-6


@positional_value
class AdagradScaled:
    """Paddle's ``std-adagrad``: ``w -= lr * g * sqrt(g0 / (g0 + G))`` with G from before, then ``G += g * g``"""

    learning_rate: float = 0.05
    initial_g2sum: float = 3.0


@positional_value
class AdagradShared:
    """Paddle's ``adagrad``: the same with one G per row, to which the mean of ``g * g`` is added"""

    learning_rate: float = 0.05
    initial_g2sum: float = 3.0


@positional_value
class Adam:
    """Adam with one step count for the whole table: a push is a step. What a framework's lazy Adam does.

    With ``ahead`` both means are corrected as if one push more had been: what Paddle does with gradients of ``sparse=True``.
    """

    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    ahead: bool = False


@positional_value
class AdamRow:
    """Adam in which every row counts the pushes that touched it: Paddle's rule on its servers, ``adam``"""

    learning_rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@positional_value
class Ftrl:
    """Follow the regularized leader, for sparse linear models"""

    learning_rate: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0


@positional_value
class RmsProp:
    """Paddle's: ``s = rho * s + (1 - rho) * g * g; v = momentum * v + lr * g / sqrt(s + epsilon); w -= v``.

    With ``centered``, also ``m = rho * m + (1 - rho) * g``, and the root is that of ``s - m * m + epsilon``.
    """

    learning_rate: float = 0.01
    rho: float = 0.95
    epsilon: float = 1e-6
    momentum: float = 0.0
    centered: bool = False


@value
class Sum:
    """``w += g``: for differences instead of gradients, as ``geo`` sends them"""


Rule = Sgd | Momentum | Adagrad | AdagradScaled | AdagradShared | Adam | AdamRow | Ftrl | RmsProp | Sum

RULES: dict[str, type[Any]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adagrad": Adagrad,
    "adagrad_scaled": AdagradScaled,
    "adagrad_shared": AdagradShared,
    "adam": Adam,
    "adam_row": AdamRow,
    "ftrl": Ftrl,
    "rmsprop": RmsProp,
    "sum": Sum,
}
for _kind in RULES.values():
    # What is no part of a rule here, or is called otherwise.
    _kind.__hints__ = {
        "lr": "write learning_rate=",
        "betas": "write beta1= and beta2=",
        "eps": "write epsilon=",
        "alpha": "write rho=",
        "weight_decay": "give it to the optimizer or the Embedding: decay=ps.Decay(l2=...)",
        "grad_clip": "give it to the optimizer or the Embedding: clip=ps.Clip(...)",
    }

PADDLE_RULES: dict[str, type[Any]] = {
    "naive": Sgd,
    "adagrad": AdagradShared,
    "std-adagrad": AdagradScaled,
    "adam": AdamRow,
}
"""The names of Paddle's server-side rules (``SparseNaiveSGDRule``, ...), which mean other things than the textbook's."""

# ---- what a new row holds


@positional_value
class Constant:
    """The same number everywhere"""

    value: float = 0.0


@positional_value
class Uniform:
    """Uniform in [low, high)"""

    low: float = -0.01
    high: float = 0.01


@positional_value
class Normal:
    """Nearly normal, within six deviations of the mean"""

    mean: float = 0.0
    deviation: float = 0.01


Init = Constant | Uniform | Normal
_INITS: dict[str, type[Any]] = {"constant": Constant, "uniform": Uniform, "normal": Normal}

# ---- when a key gets a row


@value
class Always:
    """At once"""


@value
class Count:
    """With the n-th push that carries it; until then it reads as zeros and its gradients are dropped"""

    count: int = 10


@value
class Probability:
    """One key in 1/p, chosen by the key itself; the others read as zeros for ever"""

    probability: float = 0.1


@value
class Score:
    """With an accessor: a push with a score in (0, 1) creates the row with that probability"""


Entry = Always | Count | Probability | Score
_ENTRIES: dict[str, type[Any]] = {"always": Always, "count": Count, "probability": Probability, "score": Score}

# ---- when it goes again


@value
class Expire:
    """Rows that no push has brought for more than so many days go when a day ends (`umiak.ps` calls it ``shrink``)"""

    days: int = 30


# ---- the rest of a table


@value
class Clip:
    """What is done to a gradient before, and to a row after an update. ``None`` is nothing."""

    value: float | None = None
    """Each element of a gradient is kept within plus and minus this."""
    norm: float | None = None
    """A row's gradient is scaled down to this length."""
    weight: float | None = None
    """Each weight is kept within plus and minus this (Paddle's ``weight_bounds``)."""
    global_norm: float | None = None
    """An optimizer's, not a table's: a trainer's gradients of a step, all together, are scaled down to this length before they
    are pushed."""


@value
class Decay:
    """How weights shrink with every update that touches them, after clipping. 0 is not at all; `Ftrl` and `Sum` have none."""

    l1: float = 0.0
    """``g += l1 * sign(w)``"""
    l2: float = 0.0
    """``g += l2 * w``"""
    decoupled: float = 0.0
    """``w -= lr * decoupled * w`` before the update: with `Adam`, AdamW"""


@value
class Accessor:
    """Paddle's click-through accessor with its defaults: rows with show and click that come late and go again.

    A row has a narrow weight (``embed_w``) at once and gets its ``dim`` wide ones (``embedx``) when its score
    ``click_coeff * click + nonclk_coeff * (show - click)`` reaches ``embedx_threshold``.
    """

    embed_optimizer: Rule = AdagradShared()
    embed_init: Init = Uniform(low=-1e-4, high=1e-4)
    nonclk_coeff: float = 0.1
    click_coeff: float = 1.0
    embedx_threshold: float = 10.0
    base_threshold: float = 1.5
    delta_threshold: float = 0.25
    delta_keep_days: float = 16.0
    show_click_decay_rate: float = 0.98
    delete_threshold: float = 0.8
    delete_after_unseen_days: float = 30.0
    show_scale: bool = True
    zero_init: bool = True


@value
class SparseTable:
    """Rows of ``dim`` float32 numbers by 64-bit key; a new row is a function of ``seed`` and key alone."""

    dim: int
    seed: int = 0
    init: Init = Uniform()
    rule: Rule = Adam()
    clip: Clip = Clip()
    decay: Decay = Decay()
    entry: Entry = Always()
    expire: Expire | None = None
    """Not with an accessor, which has ``delete_after_unseen_days``, nor with ``every_row``."""
    accessor: Accessor | None = None
    every_row: bool = False
    """Every push moves all rows, those without a gradient as by zeros, which is what frameworks do: means go on moving weights, and weights
    decay. A row does what it has missed when it is asked for. Otherwise a push moves the rows that it brings."""


@positional_value
class Array:
    """One array of a dense table: ``Array("fc.w", (400, 1))``."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@value
class DenseTable:
    """Named float32 arrays, laid end to end and split over the servers."""

    arrays: tuple[Array, ...]
    rule: Rule = Adam()
    clip: Clip = Clip()
    decay: Decay = Decay()


TableSpec = SparseTable | DenseTable
TABLES: tuple[type[Any], ...] = (SparseTable, DenseTable)
for _table in TABLES:
    _table.__hints__ = {"optimizer": "write rule=", "shape": "write arrays=(ps.Array(name, shape),)"}

if TYPE_CHECKING:
    from typing import TypeVar

    Spec = TypeVar("Spec", SparseTable, DenseTable)
    """One of the two."""


def rule(name: str, **settings: Any) -> Rule:
    """A rule by its own name: ``rule("adam", learning_rate=0.01)``. KeyError if there is none."""
    made: Rule = RULES[name](**settings)
    return made


def paddle_rule(name: str, **settings: Any) -> Rule:
    """A rule by Paddle's name (naive, adagrad, std-adagrad, adam), with Paddle's learning rate of 0.05."""
    made: Rule = PADDLE_RULES[name](**{"learning_rate": 0.05, **settings})
    return made


def paddle_ctr_table(
    embedx_dim: int = 8, *, seed: int = 0, embed: Rule | None = None, embedx: Rule | None = None
) -> SparseTable:
    """A click-through table with the numbers of PaddleRec's sample: start within 1e-4 of zero, weights within 10."""
    start = Uniform(low=-1e-4, high=1e-4)
    return SparseTable(
        dim=embedx_dim,
        seed=seed,
        init=start,
        rule=embedx or AdagradShared(),
        clip=Clip(weight=10.0),
        accessor=Accessor(embed_optimizer=embed or AdagradShared(), embed_init=start),
    )


# ---- to the native core


def to_json(spec: TableSpec) -> str:
    """What `umiak_native` takes."""
    import json

    return json.dumps(plain(spec))


def plain(spec: TableSpec) -> JsonObject:
    """The same as plain data. `BadRequest` names what can't be used."""
    check(spec)
    if isinstance(spec, DenseTable):
        arrays = [{"name": array.name, "shape": list(array.shape)} for array in spec.arrays]
        return {
            "kind": "dense",
            "arrays": arrays,
            "optimizer": _rule(spec.rule),
            "clip": _clip(spec.clip),
            **_decay(spec.decay),
        }
    accessor = spec.accessor
    return {
        "kind": "sparse",
        "dim": _own(spec.dim),
        "seed": _own(spec.seed),
        "init": _tagged(spec.init, "kind", _INITS),
        "optimizer": _rule(spec.rule),
        "clip": _clip(spec.clip),
        **_decay(spec.decay),
        "entry": _tagged(spec.entry, "by", _ENTRIES),
        "accessor": accessor
        and {
            **_fields(accessor),
            "embed_optimizer": _rule(accessor.embed_optimizer),
            "embed_init": _tagged(accessor.embed_init, "kind", _INITS),
        },
        # Tables without them are described as before they were there.
        **({"expire": {"days": spec.expire.days}} if spec.expire else {}),
        **({"every_row": True} if spec.every_row else {}),
    }


def from_plain(plain: JsonMapping) -> TableSpec:
    """The opposite of `plain`: of what a checkpoint's manifest has, for example."""
    shared: JsonObject = {
        "rule": _untagged(plain["optimizer"], "rule", RULES),
        "clip": Clip(**plain.get("clip") or {}),
        "decay": Decay(**plain.get("decay") or {}),
    }
    if plain["kind"] == "dense":
        return DenseTable(arrays=tuple(Array(each["name"], tuple(each["shape"])) for each in plain["arrays"]), **shared)
    accessor = plain.get("accessor")
    return SparseTable(
        dim=plain["dim"],
        seed=plain["seed"],
        init=_untagged(plain["init"], "kind", _INITS),
        entry=_untagged(plain["entry"], "by", _ENTRIES),
        expire=Expire(days=plain["expire"]["days"]) if plain.get("expire") else None,
        every_row=bool(plain.get("every_row")),
        accessor=accessor
        and Accessor(
            **{
                **accessor,
                "embed_optimizer": _untagged(accessor["embed_optimizer"], "rule", RULES),
                "embed_init": _untagged(accessor["embed_init"], "kind", _INITS),
            }
        ),
        **shared,
    )


_KINDS: dict[str, tuple[tuple[type[Any], ...], str]] = {
    "init": (tuple(_INITS.values()), "ps.Constant(0.0), ps.Uniform(-0.01, 0.01) or ps.Normal(0.0, 0.01)"),
    "rule": (tuple(RULES.values()), "a rule such as ps.Adam(learning_rate=0.001)"),
    "clip": ((Clip,), "ps.Clip(value=1.0), ps.Clip(norm=1.0); for an optimizer also ps.Clip(global_norm=1.0)"),
    "decay": ((Decay,), "ps.Decay(l2=0.01) or ps.Decay(decoupled=0.01)"),
    "entry": (tuple(_ENTRIES.values()), "ps.Count(count=10) or ps.Probability(probability=0.1)"),
    "expire": ((Expire, type(None)), "ps.Expire(days=30)"),
    "accessor": ((Accessor, type(None)), "ps.Accessor()"),
}
"""What the parts of a table may be, and what to write."""


def check(spec: TableSpec) -> None:
    """`BadRequest` names the first part of a table that is none, and what to write. Ranges are checked by the native core."""
    for name in fields(spec):
        if name in _KINDS:
            check_part(name, getattr(spec, name))
    if isinstance(spec, DenseTable) and (
        not isinstance(spec.arrays, (tuple, list)) or any(type(each) is not Array for each in spec.arrays)
    ):
        hint = 'arrays=(ps.Array("w", (400, 1)), ps.Array("b", (1,)))'
        raise bad("UM-PS-008", f"arrays: not what is expected here: {spec.arrays!r}", hint)
    if isinstance(spec, SparseTable):
        for name, least in (("dim", 1), ("seed", 0)):
            number = getattr(spec, name)
            if isinstance(number, bool) or not hasattr(number, "__index__") or number < least:
                raise bad("UM-PS-008", f"{name}: not an integer of {least} or more: {number!r}", f"{name}=16")
    if spec.clip.global_norm is not None:
        what = "clip: global_norm is the optimizer's, and not that of a table"
        raise bad("UM-PS-008", what, "ps.paddle.optimizer(model, ..., clip=ps.Clip(global_norm=1.0))")
    _check_numbers(spec)


def check_part(name: str, part: object) -> None:
    """The same for one part by its name."""
    kinds, hint = _KINDS[name]
    if type(part) not in kinds:
        raise bad("UM-PS-008", f"{name}: not what is expected here: {part!r}", hint)


def _check_numbers(item: object) -> None:
    for name in fields(item):
        number = getattr(item, name)
        if is_value(number):
            _check_numbers(number)
        elif isinstance(item, Array) or name == "arrays" or number is None:
            continue
        elif not hasattr(number, "__float__") or (not -_MOST <= float(number) <= _MOST and name != "seed"):
            raise bad("UM-PS-008", f"{type(item).__name__}: {name} is not a number that can be used: {number!r}")


def pull_width(spec: SparseTable) -> int:
    """Columns of a pulled row: dim; with an accessor show, click, embed_w and dim more."""
    return spec.dim if spec.accessor is None else 3 + spec.dim


def push_width(spec: SparseTable) -> int:
    """Columns of a pushed row: with an accessor slot, show, click and the narrow weight's gradient stand in front."""
    return spec.dim + (4 if spec.accessor else 0)


def _clip(clip: Clip) -> JsonObject:
    return {name: number for name, number in _fields(clip).items() if name != "global_norm"}


def _decay(decay: Decay) -> JsonObject:
    return {} if decay == Decay() else {"decay": _fields(decay)}


def _rule(rule: Rule) -> JsonObject:
    found = _tagged(rule, "rule", RULES)
    if not found.get("ahead", True):
        del found["ahead"]  # as tables were described before it was there
    return found


def _tagged(item: object, tag: str, names: dict[str, type[Any]]) -> JsonObject:
    name = next(name for name, kind in names.items() if type(item) is kind)
    return {tag: name, **_fields(item)}


def _untagged(plain: JsonMapping, tag: str, names: dict[str, type[Any]]) -> Any:
    return names[plain[tag]](**{name: number for name, number in plain.items() if name != tag})


def _fields(item: object) -> JsonObject:
    return {name: _own(getattr(item, name)) for name in fields(item)}


def _own(number: object) -> object:
    """numpy's numbers as Python's, which JSON has."""
    return number.item() if hasattr(number, "item") else number

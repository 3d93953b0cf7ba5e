"""What rows of a table count, in Paddle's words: ``ShowClickEntry``,
``continuous_value_model``, ``sparse_table_configs``. A decider.

                                    columns of a row in the program         shows and clicks of a sample
    ShowClickEntry("show", "click") embed_w, embedx                         variables of these names
    SparseAccessor                  embed_w, embedx                         as the entry says, else 1 and 0
    CtrCommonAccessor               show, click, embed_w, embedx            as the entry says, else 1 and 0
    continuous_value_model          show, click, embed_w, embedx            its second argument: Paddle gives it as the gradient

Numbers that nobody says have the defaults of Paddle's own servers,
which differ from those of `umiak.ps.specs.Accessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.ps import specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from umiak.core.json_types import JsonMapping as Said
    from umiak.fleet.programs.sites import TableSite
    from umiak.ps.paddle_types import Setting

ENTRY = "show_click_entry"
PLAIN, WITH_STATISTICS = "SparseAccessor", "CtrCommonAccessor"
STATISTICS = 2
"""Columns of show and click."""
NEVER = 3e38
"""A score that no row reaches."""

NUMBERS = (
    *("nonclk_coeff", "click_coeff", "base_threshold", "delta_threshold", "delta_keep_days", "show_click_decay_rate"),
    *("delete_threshold", "delete_after_unseen_days", "show_scale", "zero_init"),
)
"""What of ``ctr_accessor_param`` our accessor has."""
DEFAULTS = {
    "embedx_threshold": 0.0,
    "base_threshold": 0.0,
    "delta_threshold": 0.0,
    "show_click_decay_rate": 1.0,
    "delete_threshold": 0.0,
}
"""Of Paddle's servers, where they are not those of our accessor."""

_RULES: dict[str, tuple[str, Callable[..., specs.Rule]]] = {
    "SparseNaiveSGDRule": ("naive", specs.Sgd),
    "SparseAdaGradSGDRule": ("adagrad", specs.AdagradShared),
    "StdAdaGradSGDRule": ("adagrad", specs.AdagradScaled),
    "SparseAdamSGDRule": ("adam", specs.AdamRow),
}
_SETTINGS = {
    "learning_rate": "learning_rate",
    "initial_g2sum": "initial_g2sum",
    "beta1_decay_rate": "beta1",
    "beta2_decay_rate": "beta2",
    "ada_epsilon": "epsilon",
}
_ADAGRAD_RANGE = 1e-4
_BOUND = 10.0
_PARTS = ("embed", "embedx")
_USUAL = (("table_class", "MemorySparseTable"), ("table_id", 0), ("type", 0))
"""What tables are here anyway."""


@value
class RowCounting:
    """How rows of a table are read and what is pushed to them."""

    columns: int
    """Of a row in the program."""
    has_statistics: bool = False
    """Whether the first two are show and click."""
    is_gradient: bool = False
    """Whether the gradients of these two are the shows and clicks of the sample."""
    shows: str = ""
    """The variable that has those of each sample; empty: 1,"""
    clicks: str = ""
    """and here 0."""
    times_samples: bool = False
    """Whether gradients are multiplied by the samples of the batch, because a rule divides them by shows."""
    follows_schedule: bool = True


@value
class CountedTable:
    """A table that counts, what of the settings is left out, and what is wrong with them."""

    spec: specs.SparseTable
    counting: RowCounting
    remarks: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def counts(site: TableSite, said: Said) -> bool:
    """Whether rows of a table count. ``said``: what ``sparse_table_configs`` says of it, by dotted names."""
    return site.feeds_cvm or site.entry.startswith(ENTRY) or any(name.startswith("accessor.") for name in said)


def counted(site: TableSite, said: Said, plain: specs.SparseTable) -> CountedTable:
    """The table ``plain`` with an accessor: its rule,
    limits and first rows are those of both parts of a row, unless ``said``.
    """
    kind = said.get("accessor.accessor_class", WITH_STATISTICS if site.feeds_cvm else PLAIN)
    has_statistics = kind != PLAIN or site.feeds_cvm
    wide = site.dim - 1 - (STATISTICS if has_statistics else 0)
    rules = [_part_rule(said, part, plain) for part in _PARTS]
    bounds = {rule.bound for rule in rules if rule.bound is not None}
    problems = [
        *_wrong_columns(site, said, kind, wide),
        *(_problem(site.name, *each) for rule in rules for each in rule.problems),
    ]
    if len(bounds) > 1:
        problems.append(_problem(site.name, "weight_bounds of embed and embedx differ", "give both the same"))
    is_said = any(rule.is_said for rule in rules)
    divides = any(isinstance(rule.rule, (specs.AdagradShared, specs.AdagradScaled)) for rule in rules)
    numbers: dict[str, Any] = {**DEFAULTS, "show_scale": divides, "zero_init": wide > 0}
    prefix = "accessor.ctr_accessor_param."
    numbers |= {name: said[prefix + name] for name in NUMBERS if prefix + name in said}
    if "accessor.embedx_threshold" in said:
        numbers["embedx_threshold"] = float(said["accessor.embedx_threshold"])
    if wide <= 0:
        numbers |= {"embedx_threshold": NEVER, "zero_init": False}
    embed, embedx = rules
    remarks = unused(site.name, said)
    if plain.decay != specs.Decay():
        remarks.append(f"{site.name}: its rows count shows and clicks, so they do not decay")
    entry, *names = site.entry.split(":")
    shows, clicks = names if entry == ENTRY and len(names) == 2 else ("", "")
    return CountedTable(
        spec=replace(
            plain,
            dim=max(wide, 1),
            rule=embedx.rule,
            init=embedx.init,
            clip=replace(plain.clip, weight=min(bounds, default=_BOUND)) if is_said else plain.clip,
            decay=specs.Decay(),
            accessor=specs.Accessor(embed_optimizer=embed.rule, embed_init=embed.init, **numbers),
        ),
        counting=RowCounting(
            columns=site.dim,
            has_statistics=has_statistics,
            is_gradient=site.feeds_cvm,
            shows=shows,
            clicks=clicks,
            times_samples=divides and bool(numbers["show_scale"]),
            follows_schedule=not is_said,
        ),
        remarks=tuple(remarks),
        problems=tuple(problems),
    )


def _wrong_columns(site: TableSite, said: Said, kind: str, wide: int) -> Iterator[Problem]:
    """Where a row's columns are not those of its accessor; ``wide``: how many its second part has."""
    if kind not in (PLAIN, WITH_STATISTICS):
        hint = f"{WITH_STATISTICS}, or {PLAIN}, whose rows have no columns of shows and clicks in the program"
        yield _problem(site.name, f"there is no accessor {kind}", hint)
    if site.feeds_cvm and kind == PLAIN:
        what = f"rows of a {PLAIN} have no columns of shows and clicks, which continuous_value_model reads"
        yield _problem(site.name, what, f"accessor_class: {WITH_STATISTICS}")
    if wide < 0:
        what = f"{site.name}: rows of {site.dim} numbers have no room for shows, clicks and a weight"
        yield Problem(code="UM-FLEET-016", what=what, hint="rows of at least 3 numbers")
    for key, least in (("embedx_dim", 0), ("fea_dim", 1 + STATISTICS)):
        if said.get(f"accessor.{key}", wide + least) != wide + least:
            what = f"{key} is {said[f'accessor.{key}']}, and rows of {site.dim} numbers mean {wide + least}"
            yield _problem(site.name, what, "leave it out")


@value
class _PartRule:
    """How one part of a row learns."""

    rule: specs.Rule
    init: specs.Init
    bound: float | None = None
    is_said: bool = False
    problems: tuple[tuple[str, str], ...] = ()


def _part_rule(said: Said, part: str, plain: specs.SparseTable) -> _PartRule:
    prefix = f"accessor.{part}_sgd_param"
    name = said.get(f"{prefix}.name")
    if name is None:
        return _PartRule(rule=plain.rule, init=plain.init)
    if name not in _RULES:
        return _PartRule(
            rule=plain.rule, init=plain.init, problems=((f"there is no rule {name}", f"one of {', '.join(_RULES)}"),)
        )
    block, kind = _RULES[name]
    settings = {
        ours: said[f"{prefix}.{block}.{theirs}"]
        for theirs, ours in _SETTINGS.items()
        if f"{prefix}.{block}.{theirs}" in said
    }
    settings.setdefault("learning_rate", 0.05 if block == "adagrad" else getattr(plain.rule, "learning_rate", 0.05))
    width = said.get(f"{prefix}.{block}.initial_range", _ADAGRAD_RANGE if block == "adagrad" else None)
    given = said.get(f"{prefix}.{block}.weight_bounds")
    bounds = given or (-_BOUND, _BOUND)
    high = bounds[-1]
    problems: tuple[tuple[str, str], ...] = ()
    if [*bounds] != [-high, high] or high <= 0:
        problems = ((f"weight_bounds of {part} are not symmetric: {shown(bounds)}", "as in [-10, 10]"),)
    init = plain.init if width is None else specs.Uniform(-width, width) if width > 0 else specs.Constant(0.0)
    return _PartRule(
        rule=kind(**settings), init=init, bound=abs(high) if given else None, is_said=True, problems=problems
    )


def shown(content: Setting) -> str:
    """A setting of Paddle's protobuf on one line."""
    if isinstance(content, float):
        return f"{content:.7g}"  # as it was written: many are float32
    if isinstance(content, str) or not hasattr(content, "__len__"):
        return " ".join(str(content).split()) or "''"
    return f"[{', '.join(shown(each) for each in content)}]"


def unused(table: str, said: Said, *, is_counted: bool = True) -> list[str]:
    """The remark on what ``sparse_table_configs`` says of a table and nothing here does,
    by the shortest name that says it, and the value; none if all of it counts. ``is_counted``: rows have an accessor.
    """
    used = {
        "accessor_class",
        "fea_dim",
        "embedx_dim",
        "embedx_threshold",
        *(f"ctr_accessor_param.{each}" for each in NUMBERS),
    }
    for part in _PARTS:
        block, _ = _RULES.get(said.get(f"accessor.{part}_sgd_param.name", ""), ("", None))
        used |= {f"{part}_sgd_param.{block}.{each}" for each in (*_SETTINGS, "initial_range", "weight_bounds")}
        used.add(f"{part}_sgd_param.name")
    names = {
        f"{name.removeprefix('accessor.')} = {shown(content)}"
        for name, content in said.items()
        if name != "table_name" and (name, content) not in _USUAL
        if not (is_counted and name.removeprefix("accessor.") in used)
    }
    return [f"sparse_table_configs of {table}: no effect here: {', '.join(sorted(names))}"] if names else []


def _problem(table: str, what: str, hint: str) -> Problem:
    return Problem(code="UM-FLEET-017", what=f"sparse_table_configs of {table}: {what}", hint=hint)

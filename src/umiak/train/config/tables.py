"""Embedding tables whose rows count shows and clicks, come late and go again: what ``table_parameters`` says. A decider.

    table_parameters:
      embedding:                                  a table, by the name that the model has for it
        accessor:
          embedx_dim: 8
          embedx_threshold: 10
          embed_sgd_param: {name: SparseAdaGradSGDRule, adagrad: {learning_rate: 0.05, weight_bounds: [-10.0, 10.0]}}
          ctr_accessor_param: {nonclk_coeff: 0.1, click_coeff: 1.0, delete_threshold: 0.8}

Names and defaults are those of newer PaddleRec's sample. What a table does with them is said in `umiak.ps.specs.Accessor`.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.schema import kinds, sections
from umiak.schema.settings import table as rows_of
from umiak.schema.yaml_tree import Section, kind_of
from umiak.train.config.keys import UNKNOWN
from umiak.train.config.kinds import newer, row
from umiak.train.config.values import RowRule, Schedule, TableParameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said

_CLASSES = ("CtrCommonAccessor", "SparseAccessor")

SGD_RULES: dict[str, tuple[str, str]] = {
    "SparseNaiveSGDRule": ("naive", "sgd"),
    "SparseAdaGradSGDRule": ("adagrad", "adagrad_shared"),
    "StdAdaGradSGDRule": ("adagrad", "adagrad_scaled"),
    "SparseAdamSGDRule": ("adam", "adam_row"),
}
"""Paddle's rules: the mapping that has the settings of each, and its name in `umiak.ps.specs.RULES`."""

SETTINGS: dict[str, dict[str, str]] = {
    "naive": {"learning_rate": "learning_rate"},
    "adagrad": {"learning_rate": "learning_rate", "initial_g2sum": "initial_g2sum"},
    "adam": {
        "learning_rate": "learning_rate",
        "beta1_decay_rate": "beta1",
        "beta2_decay_rate": "beta2",
        "ada_epsilon": "epsilon",
    },
}
"""What each of these mappings may say, and the rule's own names for it."""


_ROWS = rows_of(TableParameters)
_OF_ACCESSOR = ("embedx_dim", "embedx_threshold")
"""Keys of the accessor itself; the others stand in its ``ctr_accessor_param``."""

TABLE = (
    newer(
        "table_class",
        kinds.CHOICE,
        "Class of the table; only tables in memory are supported.",
        default="MemorySparseTable",
        choices=("MemorySparseTable",),
        refused_words=(("ssdsparsetable", "rows are kept in memory, on as many servers as it takes"),),
    ),
    newer("accessor", kinds.MAPPING, "Everything below.", default_said="all defaults"),
    row("shard_num", kinds.WHOLE, settled="Rows are divided finely among any number of servers."),
)

ACCESSOR = (
    newer(
        "accessor_class",
        kinds.CHOICE,
        "Class of the accessor; both are the same here.",
        default=_CLASSES[0],
        choices=_CLASSES,
    ),
    *[row for row in _ROWS if row.name in _OF_ACCESSOR],
    newer(
        "embed_sgd_param",
        kinds.MAPPING,
        "Initialization and optimizer of the [first number](#rules-of-rows).",
        default_said="as the sample",
    ),
    newer(
        "embedx_sgd_param",
        kinds.MAPPING,
        "Initialization and optimizer of the wide part.",
        default_said="as the sample",
    ),
    newer(
        "ctr_accessor_param",
        kinds.MAPPING,
        "Weights of shows and clicks, and eviction of rows; below.",
        default_said="as the sample",
    ),
    row("fea_dim", kinds.WHOLE, settled="It follows from `embedx_dim`."),
    row("table_accessor_save_param", kinds.MAPPING, settled="Models are saved in umiak's own format."),
)

COUNTS = (
    *[row for row in _ROWS if row.name not in _OF_ACCESSOR],
    row("ssd_unseenday_threshold", kinds.NUMBER, settled="Rows are kept in memory until they are evicted."),
)

SGD = (
    newer(
        "name",
        kinds.CHOICE,
        "[What each does](ps.md#rules): `sgd`, `adagrad_shared`, `adagrad_scaled`, `adam_row`. `naive`, `adagrad`, "
        "`std-adagrad` and `adam` are accepted.",
        default="SparseAdaGradSGDRule",
        choices=tuple(SGD_RULES),
        synonyms=tuple(zip(("naive", "adagrad", "std-adagrad", "adam"), SGD_RULES, strict=True)),
        refused_words=(("sparsesharedadamsgdrule", "not supported; SparseAdamSGDRule is the closest alternative"),),
    ),
    *(
        newer(name, kinds.MAPPING, f"Settings of {rules}, below.", default_said="as the sample")
        for name, rules in (
            ("naive", "`SparseNaiveSGDRule`"),
            ("adagrad", "the two variants of AdaGrad"),
            ("adam", "`SparseAdamSGDRule`"),
        )
    ),
)

RULE = (
    newer("learning_rate", kinds.NUMBER, "Learning rate.", default_said="0.05; `adam`: 0.001", least=0),
    newer("initial_g2sum", kinds.NUMBER, "`adagrad`: initial sum of squared gradients.", default_said="3"),
    newer(
        "initial_range",
        kinds.NUMBER,
        "Initialize new rows uniformly between minus and plus this.",
        default_said="0.0001",
        least=0,
    ),
    newer(
        "weight_bounds",
        kinds.BOUNDS,
        "Lower and upper bound of weights; the same for both parts of a row.",
        default_said="[-10, 10]",
    ),
    newer("beta1_decay_rate", kinds.NUMBER, "`adam`: decay rate of the first moment.", default_said="0.9", least=0),
    newer("beta2_decay_rate", kinds.NUMBER, "`adam`: decay rate of the second moment.", default_said="0.999", least=0),
    newer("ada_epsilon", kinds.NUMBER, "`adam`: added to the denominator.", default_said="1e-8"),
)

BELOW_ONE = ("beta1_decay_rate", "beta2_decay_rate")
ABOVE_ZERO = ("initial_g2sum", "ada_epsilon")


def read(node: Section | None, findings: Findings) -> dict[str, TableParameters]:
    """The tables that ``table_parameters`` names; what is wrong with them goes to ``findings``."""
    made = {}
    for entry in node.entries if node is not None else ():
        if isinstance(entry.node, Section):
            made[entry.key] = _Table(entry.key, entry.node, findings).made()
            continue
        findings.problem(
            "UM-CONFIG-013",
            entry.node.place,
            f"table_parameters: {entry.spoken} must be a mapping, not {kind_of(entry.node)}",
            why="its keys are table names, each with a mapping below it",
            hint="write `table_parameters: {embedding: {accessor: {embedx_dim: 8}}}`",
        )
    return made


def check_schedule(
    tables: dict[str, TableParameters], schedule: Schedule, node: Section | None, findings: Findings
) -> None:
    """A schedule changes one learning rate for a whole table."""
    if node is None or schedule == Schedule():
        return
    for name, table in tables.items():
        entry = node.get(name)
        rates = [part.settings.get("learning_rate", "Learning rate.") for part in (table.embed, table.embedx)]
        if entry is not None and rates[0] != rates[1]:
            findings.problem(
                "UM-CONFIG-023",
                entry.place,
                f"table {name}: two learning rates, {rates[0]:g} and {rates[1]:g}, and a schedule",
                hint="let both parts of a row have the same learning rate, or leave the schedule out",
            )


class _Table:
    def __init__(self, name: str, node: Section, findings: Findings) -> None:
        self.label = f"table {name}"
        self.findings = findings
        self.accessor = self._section(ACCESSOR, self._section(TABLE, node), "accessor")
        self.bounds: list[tuple[Said, float]] = []

    def made(self) -> TableParameters:
        accessor = self.accessor
        if accessor is None:
            return TableParameters()
        counts = self._section(COUNTS, accessor, "ctr_accessor_param")
        written = [section for section in (accessor, counts) if section is not None]
        given = {row.name: section.get(row.name) for section in written for row in _ROWS if section.said(row.name)}
        if counts and counts.said("show_click_decay_rate") and counts.get("show_click_decay_rate") > 1:
            self._bad(counts, "show_click_decay_rate", "above 1: shows and clicks would grow every day")
        embed, embedx = (self._rule(accessor, f"{name}_sgd_param") for name in ("embed", "embedx"))
        return TableParameters(bound=self._bound(), embed=embed, embedx=embedx, **given)

    def _rule(self, accessor: Said, key: str) -> RowRule:
        sgd = self._section(SGD, accessor, key)
        if sgd is None:
            return RowRule()
        block, rule = SGD_RULES[str(sgd.get("name"))]
        for other in SETTINGS:
            if other != block and sgd.said(other):
                self._no_effect(sgd, other, f"the rule is {sgd.get('name')}")
        said = self._section(RULE, sgd, block)
        settings = {} if block == "adam" else {"learning_rate": 0.05}
        made = RowRule(rule=rule, settings=settings)
        if said is None:
            return made
        for name in (each.name for each in RULE if said.said(each.name)):
            if name in SETTINGS[block]:
                settings[SETTINGS[block][name]] = said.get(name)
            elif any(name in others for others in SETTINGS.values()):
                self._no_effect(said, name, f"{block} does not know it")
            self._check_range(said, name)
        if said.said("initial_range"):
            made = replace(made, initial_range=said.get("initial_range"))
        if said.said("weight_bounds"):
            low, high = said.get("weight_bounds")
            if low != -high or high <= 0:
                self._bad(said, "weight_bounds", "expected symmetric bounds, as in [-10, 10]")
            self.bounds.append((said, high))
        return replace(made, settings=settings)

    def _bound(self) -> float:
        if len(self.bounds) > 1 and self.bounds[0][1] != self.bounds[1][1]:
            self._bad(
                self.bounds[1][0], "weight_bounds", "differs from embed_sgd_param: both parts of a row share one bound"
            )
        return self.bounds[0][1] if self.bounds else TableParameters().bound

    def _check_range(self, said: Said, name: str) -> None:
        number = said.get(name)
        if name in ABOVE_ZERO and number <= 0:
            self._bad(said, name, f"not above 0: {number:g}")
        if name in BELOW_ONE and number >= 1:
            self._bad(said, name, f"not below 1: {number:g}")

    def _section(self, table: tuple[Key, ...], outer: Said | Section | None, name: str = "") -> Said | None:
        """What a mapping says; None if it is not there, or no mapping."""
        node = outer if isinstance(outer, Section) or outer is None else outer.node(name)
        if not isinstance(node, Section):
            return None
        return sections.read(table, node, f"{self.label}: {name}" if name else self.label, self.findings, UNKNOWN)

    def _bad(self, said: Said, key: str, what: str) -> None:
        self.findings.problem("UM-CONFIG-014", said.place(key), f"{said.label}: {said.spoken(key)}: {what}")

    def _no_effect(self, said: Said, key: str, why: str) -> None:
        what = f"{said.label}: no effect: {said.spoken(key)}"
        self.findings.warning("UM-CONFIG-018", said.key_place(key), what, why=why)

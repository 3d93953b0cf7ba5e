"""What an evaluation measures besides the model's own metrics: what ``evaluation`` says. A decider.

    evaluation:
      label: click
      slices: [country]
      metrics:
      - {name: gauc, group: user, weight: samples}
      - {name: ndcg, group: user, k: 10}
      - {name: normalised_entropy}

How the numbers are worked out is said in `umiak.train.metrics`.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import replace
from umiak.schema import kinds, sections
from umiak.schema.findings import choices
from umiak.schema.settings import filled, setting, settings, table
from umiak.schema.settings import read as read_settings
from umiak.schema.yaml_tree import Listing, Section, kind_of
from umiak.train.config.kinds import Origin, ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.schema.findings import Findings
    from umiak.schema.sections import Said, UnknownKeys


class Weight(str, Enum):
    """What a group counts in GAUC."""

    SAMPLES = "samples"
    POSITIVES = "positives"
    EQUAL = "equal"


class Gain(str, Enum):
    """What a label is worth in NDCG."""

    BINARY = "binary"
    """1 for each label above 0."""
    EXPONENTIAL = "exponential"
    """2 to the power of the label, minus 1."""


class MetricName(str, Enum):
    """What can be measured."""

    GAUC = "gauc"
    NDCG = "ndcg"
    HIT_RATE = "hit_rate"
    MRR = "mrr"
    AUC = "auc"
    LOG_LOSS = "log_loss"
    NORMALISED_ENTROPY = "normalised_entropy"
    CALIBRATION = "calibration"
    CALIBRATION_DECILES = "calibration_deciles"
    ACCURACY = "accuracy"


OF_GROUPS = (MetricName.GAUC, MetricName.NDCG, MetricName.HIT_RATE, MetricName.MRR)
_TAKES = {
    "group": OF_GROUPS,
    "weight": (MetricName.GAUC,),
    "k": (MetricName.NDCG, MetricName.HIT_RATE, MetricName.MRR),
    "gain": (MetricName.NDCG,),
}
"""Keys that mean something with some metrics only."""


@settings
class MetricSettings:
    """One metric."""

    name: MetricName = setting(MetricName, "Which metric: [what each is](metrics.md).", required=True)
    group: str | None = setting(
        kinds.NAME,
        "`gauc`, `ndcg`, `hit_rate`, `mrr`: slot with the user, query or session that a sample belongs to.",
        default=None,
        origin=Origin.UMIAK,
    )
    weight: Weight = setting(
        Weight,
        "`gauc`: what a group counts: its number of samples, of positive samples, or as much as any other. The metric's name "
        "says it: `gauc_samples`.",
        default=Weight.SAMPLES,
        origin=Origin.UMIAK,
    )
    k: int | None = setting(
        kinds.WHOLE,
        "`ndcg`, `hit_rate`, `mrr`: so many of a group with the highest predictions are looked at.",
        default=None,
        default_text="10; `mrr`: all",
        least=1,
        origin=Origin.UMIAK,
    )
    gain: Gain = setting(
        Gain,
        "`ndcg`: a label above 0 is worth 1, or 2^label - 1.",
        default=Gain.BINARY,
        origin=Origin.UMIAK,
    )
    label: str | None = setting(
        kinds.NAME, "Slot with the label.", default=None, default_text="that of `evaluation`", origin=Origin.UMIAK
    )
    prediction: str | None = setting(
        kinds.NAME, "Output of the model.", default=None, default_text="that of `evaluation`", origin=Origin.UMIAK
    )
    title: str = setting(
        kinds.NAME, "Name of the number, where two would have the same.", default="", origin=Origin.UMIAK
    )

    @property
    def shown(self) -> str:
        """The name that the number has."""
        if self.title:
            return self.title
        if self.name is MetricName.GAUC:
            return f"gauc_{self.weight.value}"
        if self.name in _TAKES["k"] and self.k is not None:
            return f"{self.name.value}@{self.k}" + ("" if self.gain is Gain.BINARY else "_exponential")
        return str(self.name.value)


@settings
class EvaluationSettings:
    """Everything that is measured besides the model's own metrics."""

    label: str | None = setting(
        kinds.NAME,
        "Slot with the label; for readers whose fields have no names its number, counted from 0.",
        default=None,
        default_text="that of the model's first metric, where it says one",
        origin=Origin.UMIAK,
    )
    prediction: str | None = setting(
        kinds.NAME,
        "Output of the model.",
        default=None,
        default_text="that of its first metric, or the only one",
        origin=Origin.UMIAK,
    )
    slices: tuple[str, ...] = setting(
        kinds.NAMES,
        "Slots by whose values the AUC is divided: `auc_by_SLOT` is the lowest of the slices that are shown, and each is told.",
        default=(),
        origin=Origin.UMIAK,
    )
    most_slices: int = setting(
        kinds.WHOLE, "So many of the largest slices are told.", default=20, least=1, origin=Origin.UMIAK
    )
    metrics: tuple[MetricSettings, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every slot that is asked for by its name."""
        found = [self.label, *self.slices, *(name for each in self.metrics for name in (each.group, each.label))]
        return tuple(dict.fromkeys([each for each in found if each]))

    def __bool__(self) -> bool:
        return bool(self.metrics or self.slices)


EVALUATION = (*table(EvaluationSettings), ours("metrics", kinds.SECTIONS, "Metrics, each with a `name`."))
METRIC = table(MetricSettings)


def takes(metric: MetricName, key: str) -> bool:
    """Whether a key means something with a metric."""
    return metric in _TAKES.get(key, (metric,))


def read(node: Section | None, findings: Findings, unknown: UnknownKeys) -> EvaluationSettings:
    """What ``evaluation`` says; what is wrong with it goes to ``findings``."""
    if node is None:
        return EvaluationSettings()
    said = sections.read(EVALUATION, node, "evaluation", findings, unknown)
    found = filled(EvaluationSettings, said, findings, metrics=_metrics(said, findings, unknown))
    if not found and node.entries and not said.wrong:
        findings.warning("UM-CONFIG-018", node.place, "evaluation: no effect: it names no metrics and no slices")
    return found


def check_slots(
    made: EvaluationSettings, datasets: Mapping[str, Sequence[str]], node: Section, findings: Findings
) -> None:
    """Each slot that is asked for is one of those that evaluated datasets declare; what a reader class gives is seen when it is read."""
    for dataset, there in datasets.items():
        for name in made.columns:
            if name not in there:
                what = f"evaluation: dataset {dataset} has no slot {name}"
                findings.problem("UM-CONFIG-015", node.place, what, hint=choices(name, there))


def _metrics(said: Said, findings: Findings, unknown: UnknownKeys) -> tuple[MetricSettings, ...]:
    listing = said.node("metrics")
    made: list[MetricSettings] = []
    for number, node in enumerate(listing.items if isinstance(listing, Listing) else (), start=1):
        if not isinstance(node, Section):
            what = f"evaluation: entry {number} of metrics must be a mapping with a name, not {kind_of(node)}"
            findings.problem("UM-CONFIG-013", node.place, what, hint="write `- {name: gauc, group: user}`")
            continue
        each, own = read_settings(MetricSettings, node, f"metric {number}", findings, unknown)
        if "name" in own.wrong or not own.said("name"):
            continue
        each = _whole(each, own, findings)
        if each.shown in {other.shown for other in made}:
            what = f"evaluation: there are two metrics {each.shown}"
            findings.problem("UM-CONFIG-016", own.place("name"), what, hint="give one of them another `title`")
        made.append(each)
    return tuple(made)


def _whole(each: MetricSettings, own: Said, findings: Findings) -> MetricSettings:
    """One metric, with what follows from its name."""
    for key in _TAKES:
        if own.said(key) and not takes(each.name, key):
            what = f"{own.label}: no effect: {key}"
            findings.warning("UM-CONFIG-018", own.key_place(key), what, why=f"{each.name.value} does not know it")
            each = replace(each, **{key: getattr(MetricSettings(name=each.name), key)})
    if each.name in OF_GROUPS and not each.group and "group" not in own.wrong:
        what = f"{own.label}: {each.name.value} needs a group, and none is said"
        findings.problem("UM-CONFIG-011", own.place("name"), what, hint="write `group:` with a slot, as `user`")
    if each.name in (MetricName.NDCG, MetricName.HIT_RATE) and each.k is None:
        each = replace(each, k=10)
    if "." in each.title or "@" in each.title:
        what = f"{own.label}: title: expected a name without . and @, got {each.title}"
        findings.problem("UM-CONFIG-014", own.place("title"), what)
    return each

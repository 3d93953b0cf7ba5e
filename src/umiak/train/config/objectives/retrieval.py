"""How items are found among all that there are: what ``retrieval`` says. A decider.

    retrieval:
      items: items.parquet
      features: [item, category]
      negatives: popularity
      count: 4
      weight: views
      recall: [10, 100]

The catalogue is a table with a row for each item. Of it negatives are drawn in training, and all of it is ranked for each user in an evaluation.
"""

from __future__ import annotations

from enum import Enum

from umiak.schema import kinds, sections
from umiak.schema.findings import choices
from umiak.schema.keys import BadValue, Kind, WrongType
from umiak.schema.settings import filled, setting, settings, table
from umiak.schema.yaml_tree import Listing, Scalar
from umiak.train.config.kinds import Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.features.section import FeatureSection
    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.sections import UnknownKeys
    from umiak.schema.yaml_tree import Node, Section


class Negatives(str, Enum):
    """Where items come from that a user has not chosen."""

    NONE = "none"
    UNIFORM = "uniform"
    POPULARITY = "popularity"
    IN_BATCH = "in_batch"


class RetrievalLoss(str, Enum):
    """What is made small over a chosen item and those that were drawn for it."""

    LOG_LOSS = "log_loss"
    SOFTMAX = "softmax"


def _cutoffs(_: Key, node: Node) -> tuple[int, ...]:
    items = node.items if isinstance(node, Listing) else (node,)
    numbers = [each.data for each in items if isinstance(each, Scalar) and type(each.data) in (int, float)]
    found = [int(each) for each in numbers if isinstance(each, (int, float)) and float(each).is_integer()]
    if len(found) < len(items):
        raise WrongType
    if any(each < 1 for each in found) or len(set(found)) < len(found):
        raise BadValue("expected different numbers of 1 or more", hint="such as [10, 100]")
    return tuple(found)


CUTOFFS = Kind(phrase="an integer or a list of integers", read=_cutoffs)


@settings
class Retrieval:
    """How items are found among all that there are."""

    ORIGIN = Origin.UMIAK

    items: str = setting(
        kinds.PATH,
        "The catalogue: a table with a row for each item, in the columns of the items' features; a file, directory, pattern or URL.",
        default="",
    )
    features: tuple[str, ...] = setting(
        kinds.NAMES, "Features of an item; the first one tells items apart. All others are the user's.", default=()
    )
    negatives: Negatives = setting(
        Negatives,
        "Where items come from that the user of a positive sample has not chosen: each item alike, by `weight` of the catalogue, or positive "
        "samples of the same batch. `none`: negatives are in the data.",
        default=Negatives.NONE,
    )
    count: int = setting(kinds.WHOLE, "So many are drawn for each positive sample.", default=4, least=1)
    weight: str | None = setting(
        kinds.NAME, "Column of the catalogue that says how often an item is chosen.", default=None
    )
    alpha: float = setting(kinds.NUMBER, "Power of `weight` with `popularity`.", default=1.0, least=0)
    loss: RetrievalLoss = setting(
        RetrievalLoss,
        "`log_loss`: a drawn item is a sample with label 0. `softmax`: which one of the item and those drawn for it was chosen; samples with "
        "label 0 are left out, and from each logit the logarithm of the item's chance to be drawn is taken (logQ), where that is not the same for all.",
        default=RetrievalLoss.LOG_LOSS,
    )
    recall: tuple[int, ...] = setting(
        CUTOFFS, "Evaluations print Recall@k over the whole catalogue, for each of these k.", default=()
    )

    def __bool__(self) -> bool:
        return bool(self.items)


RETRIEVAL = table(Retrieval)


def read(node: Section, section: FeatureSection | None, findings: Findings, unknown: UnknownKeys) -> Retrieval:
    """What ``retrieval`` says; what is wrong with it goes to ``findings``."""
    said = sections.read(RETRIEVAL, node, "retrieval", findings, unknown)
    made = filled(Retrieval, said, findings)
    for name in ("items", "features"):
        if not said.said(name) and name not in said.wrong:
            findings.problem("UM-CONFIG-011", node.place, f"retrieval: {name} is not there", hint=f"write `{name}:`")
    if made.negatives is Negatives.NONE and not made.recall and not said.wrong:
        findings.warning("UM-CONFIG-018", node.place, "retrieval: no effect: it says neither `negatives` nor `recall`")
    if section is None:
        what = "retrieval: there are no features, and a catalogue is a table"
        findings.problem("UM-CONFIG-022", node.place, what, hint="write `features:`")
        return made
    known = {each.name: each for each in section.fed}
    for name in made.features:
        if name not in known:
            what = f"retrieval: features: there is no feature {name}"
            findings.problem("UM-CONFIG-015", said.place("features"), what, hint=choices(name, known))
    first = known.get(made.features[0]) if made.features else None
    if first is not None and (not first.has_ids or first.is_list):
        what = f"retrieval: features: {first.name} has not one id in each row, and can't tell items apart"
        findings.problem("UM-CONFIG-014", said.place("features"), what, hint="let an id of the item be the first")
    needs_weight = made.negatives is Negatives.POPULARITY or (
        made.negatives is Negatives.IN_BATCH and made.loss is RetrievalLoss.SOFTMAX
    )
    if needs_weight and made.weight is None:
        what = f"retrieval: {made.negatives.value} needs to know how often items are chosen"
        findings.problem(
            "UM-CONFIG-011", said.place("negatives"), what, hint="write `weight:` with a column of the catalogue"
        )
    if made.recall and section.group is None:
        what = "retrieval: recall needs to know whose samples they are"
        findings.problem(
            "UM-CONFIG-011", said.place("recall"), what, hint="write `group:` with the user in `features:`"
        )
    return made


def plain(made: Retrieval) -> dict[str, object]:
    """As a config has it."""
    from umiak.schema import settings as values

    return {key: each for key, each in values.plain(made).items() if each not in (None, ())}

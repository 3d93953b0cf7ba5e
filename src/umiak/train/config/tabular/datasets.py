"""Datasets whose files are tables: their slots, and what of them is read. A decider.

The slots are those of the section ``features:``, so that a model can't tell a table from slot text: labels first, then the features that are ids,
all sparse; numbers and vectors are dense.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.schema.yaml_tree import Section
from umiak.train.config.paddlerec.directory import is_dygraph
from umiak.train.config.slots import DenseSlot, SlotFeature
from umiak.train.config.values import DatasetType, RunnerClass, Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.schema.features.section import FeatureSection
    from umiak.schema.findings import Findings
    from umiak.schema.sections import Said
    from umiak.train.config.values import Dataset, Phase, Runner

KEYS = ("bad_rows", "rows_before", "rows_after", "rows_share", "column_names", "quoted_newlines")
"""Keys that mean something for tables only."""
WEIGHT = "sample_weight"
"""The slot with the weights of samples."""
LINES = ("bad_lines", "padding", "extra_slots_allowed", "drop_last", "divide_by", "ready_batches", "num_workers")
"""Keys that mean something for lines of slots, or for reader classes, only."""


def dataset(made: Dataset, section: FeatureSection, said: Said, findings: Findings) -> Dataset:
    """A dataset with features; what does not go together goes to ``findings``."""
    low, high = made.rows_share or (0.0, 1.0)
    if not 0.0 <= low < high <= 1.0:
        what = (
            f"{said.label}: rows_share: expected two shares from 0 to 1, the smaller one first, got [{low:g}, {high:g}]"
        )
        findings.problem("UM-CONFIG-014", said.place("rows_share"), what, hint="write `rows_share: [0, 0.9]`")
    if made.bad_rows > 1.0:
        what = f"{said.label}: bad_rows: expected a share from 0 to 1, got {made.bad_rows:g}"
        findings.problem("UM-CONFIG-014", said.place("bad_rows"), what, hint="write `bad_rows: 0.01`")
    if section.time is None:
        for key in ("rows_before", "rows_after"):
            if said.said(key):
                what = f"{said.label}: {key}: the features have no time"
                findings.problem("UM-CONFIG-022", said.key_place(key), what, hint="write `time: COLUMN` in `features:`")
    for key in LINES:
        if said.said(key):
            findings.warning(
                "UM-CONFIG-018",
                said.key_place(key),
                f"{said.label}: no effect: {said.spoken(key)}",
                why="its rows are read as `features:` says",
            )
    fed = section.fed
    names = [*section.labels, *(each.name for each in fed)]
    for name in sorted({name for name in names if names.count(name) > 1 or name == WEIGHT}):
        why = "the weights of samples have this name" if name == WEIGHT else "a label and a feature have one name"
        what = f"{said.label}: the features have a slot {name} that can't be there: {why}"
        findings.problem(
            "UM-CONFIG-021", said.key_place("name"), what, hint="give one another `name`, and its column as `from`"
        )
    return replace(
        made,
        type=DatasetType.DATA_LOADER,
        features=section,
        sparse_slots=(*section.labels, *(each.name for each in fed if each.has_ids)),
        dense_slots=tuple([DenseSlot(name=each.name, shape=(each.dim or 1,)) for each in fed if not each.has_ids]),
    )


def check_use(
    there: Sequence[Dataset],
    phases: Sequence[Phase],
    runners: Sequence[Runner],
    old: Sequence[Phase],
    top: Said,
    findings: Findings,
) -> None:
    """Features are for models of our own form: those of PaddleRec take what their readers give."""
    _check_days(there, runners, top, findings)
    old_models = {each.model for each in old}
    tabular = {each.name for each in there if each.features is not None}
    asked = top.node("retrieval")
    if isinstance(asked, Section) and asked.entries and there and not tabular:
        what = "retrieval: no dataset is a table: all of them have slots, or a reader class"
        findings.problem("UM-CONFIG-022", top.key_place("retrieval"), what, hint="leave the slots out of one")
    for phase in phases:
        if phase.dataset_name in tabular and (phase.model in old_models or is_dygraph(phase.model)):
            what = f"phase {phase.name}: a model in PaddleRec's form, and data with features: {phase.model}"
            hint = (
                "take a model of the zoo, or write one with umiak.models; PaddleRec's models read with a reader class"
            )
            findings.problem("UM-CONFIG-022", top.key_place("features"), what, hint=hint)


def _check_days(there: Sequence[Dataset], runners: Sequence[Runner], top: Said, findings: Findings) -> None:
    """Rows expire when days end, and they do in online learning alone."""
    expiring = sorted(
        {each.name for made in there if made.features is not None for each in made.features.fed if each.expire}
    )
    learning = [each for each in runners if each.kind is not RunnerClass.INFER]
    if expiring and learning and all(each.online is None for each in learning):
        what = f"features: no effect: `expire` of {', '.join(expiring)}"
        why = "a day ends in runners of class online_learning alone"
        findings.warning("UM-CONFIG-018", top.key_place("features"), what, why=why)


def slots(made: Dataset) -> Slots:
    """What a model is told of a dataset with features."""
    section = made.features
    assert section is not None
    weight = WEIGHT if section.weight is not None else None
    said = [
        SlotFeature(
            name=each.name,
            dim=each.dim if each.name in section.own_dims else None,
            pooling=each.pooling or "sum",
            table=each.table if each.admit or each.expire else "",
            admit=each.admit,
            expire=each.expire,
        )
        for each in section.fed
        if each.has_ids
    ]
    return Slots(
        sparse=made.sparse_slots,
        dense=made.dense_slots,
        labels=tuple(section.labels),
        weight=weight,
        features=tuple(said),
    )


def check_unused(said: Said, findings: Findings) -> None:
    """Keys for tables, where there are no features."""
    for key in KEYS:
        if said.said(key):
            findings.warning(
                "UM-CONFIG-018",
                said.key_place(key),
                f"{said.label}: no effect: {said.spoken(key)}",
                why="it is for tables, which are read as `features:` says",
            )


def extra_slots(made: Dataset) -> tuple[str, ...]:
    """Slots that evaluations may ask for, and models do not get."""
    return of_section(made.features) if made.features else ()


def of_section(section: FeatureSection) -> tuple[str, ...]:
    """The column of groups, where no feature has its name, and the weights."""
    taken = {*section.labels, *(each.name for each in section.fed)}
    group = section.group if section.group not in taken else None
    return tuple(filter(None, [group, WEIGHT if section.weight is not None else None]))

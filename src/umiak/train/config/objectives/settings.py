"""What training makes small besides the model's own loss: what ``objective`` says. A decider.

    objective:
      class_weights: {click: [1, 4]}
      embedding_decay: 1.0e-6
      embedding_dropout: 0.1

Weights of classes count in the loss of models that are written with `umiak.models`; how, says `umiak.train.modeling.inputs.Inputs.mean`.
"""

from __future__ import annotations

from umiak.schema import kinds, sections
from umiak.schema.findings import choices
from umiak.schema.keys import BadValue, Kind, WrongType
from umiak.schema.settings import filled, setting, settings, table
from umiak.schema.yaml_tree import Listing, Scalar, Section
from umiak.train.config.kinds import Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.sections import UnknownKeys
    from umiak.schema.yaml_tree import Node

    ClassWeights = dict[str, tuple[float, ...]]

EVERY_LABEL = ""
"""Stands for all labels."""


def _class_weights(_: Key, node: Node) -> ClassWeights:
    if isinstance(node, Listing):
        return {EVERY_LABEL: _weights(node)}
    if not isinstance(node, Section) or not node.entries:
        raise WrongType
    return {entry.key: _weights(entry.node) for entry in node.entries}


def _weights(node: Node) -> tuple[float, ...]:
    if not isinstance(node, Listing) or len(node.items) < 2:
        raise BadValue("expected a weight for each class, 0 first", hint="such as [1, 4]: a positive counts as four")
    found = [
        float(each.data)
        for each in node.items
        if isinstance(each, Scalar) and isinstance(each.data, (int, float)) and not isinstance(each.data, bool)
    ]
    if len(found) < len(node.items) or any(not 0.0 <= each <= 1e6 for each in found) or not any(found):
        raise BadValue("weights of classes are numbers from 0 to 1e6, and one of them is more than 0")
    return tuple(found)


CLASS_WEIGHTS = Kind(
    phrase="weights of the classes 0, 1, ... of a label, or a mapping of labels to these", read=_class_weights
)


@settings
class Objective:
    """What training makes small besides the model's loss."""

    ORIGIN = Origin.UMIAK

    class_weights: ClassWeights = setting(
        CLASS_WEIGHTS,
        "What the loss of a sample is multiplied by, by the class of its label: `[1, 4]` lets positives count four times. "
        "A mapping says it for each label: `{click: [1, 4], buy: [1, 50]}`.",
        default={},
        default_text="1 for every class",
    )
    embedding_decay: float | None = setting(
        kinds.NUMBER,
        "`weight_decay` of embeddings in place of the optimizer's.",
        default=None,
        default_text="the optimizer's `weight_decay`",
        least=0,
    )
    embedding_dropout: float = setting(
        kinds.NUMBER,
        "Share of the numbers of looked-up vectors that are zeros in training; the others are divided by the rest. Vectors of one number are left alone.",
        default=0.0,
        least=0,
    )

    def __bool__(self) -> bool:
        return self != Objective()


OBJECTIVE = table(Objective)


def read(node: Section | None, findings: Findings, unknown: UnknownKeys) -> Objective:
    """What ``objective`` says; what is wrong with it goes to ``findings``."""
    if node is None:
        return Objective()
    said = sections.read(OBJECTIVE, node, "objective", findings, unknown)
    made = filled(Objective, said, findings)
    if made.embedding_dropout >= 1.0:
        what = f"objective: embedding_dropout: expected a share below 1, got {made.embedding_dropout:g}"
        findings.problem("UM-CONFIG-014", said.place("embedding_dropout"), what, hint="such as 0.1")
    return made


def check_labels(made: Objective, datasets: Mapping[str, Sequence[str]], node: Section, findings: Findings) -> None:
    """Each label that has weights is a slot of what is trained on, where that is said."""
    for dataset, there in datasets.items():
        for name in made.class_weights:
            if name != EVERY_LABEL and name not in there:
                what = f"objective: class_weights: dataset {dataset} has no slot {name}"
                findings.problem("UM-CONFIG-015", node.place, what, hint=choices(name, there))


def plain(made: Objective) -> dict[str, object]:
    """As a config has it."""
    weights = {name: list(each) for name, each in made.class_weights.items()}
    found: dict[str, object] = {"embedding_dropout": made.embedding_dropout}
    if weights:
        found["class_weights"] = weights.get(EVERY_LABEL, weights)
    if made.embedding_decay is not None:
        found["embedding_decay"] = made.embedding_decay
    return found

"""A dataset that is a stream: what ``stream`` says beside ``data_path: kafka://broker:9092/topic``. A decider.

    stream:
      format: json
      start_from: earliest
      until: 2026-02-01T00:00:00
      client: {security.protocol: SASL_SSL, sasl.username: ctr, sasl.password: "${KAFKA_PASSWORD}"}

A stream is trained on by ``class: online_learning``, pass by pass, and by nothing else.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import replace, value
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Kind, WrongType
from umiak.schema.settings import plain as written
from umiak.schema.settings import read as read_settings
from umiak.schema.settings import setting, settings, table
from umiak.schema.yaml_tree import Scalar, Section, shortened
from umiak.train.config.kinds import TIME, Origin, ours
from umiak.train.config.streams import client_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said, UnknownKeys
    from umiak.schema.yaml_tree import Node

SCHEME = "kafka://"
KEY = "stream"
LEARNS = "online_learning"
"""The class of runners that learn from a stream."""
OF_FILES = (
    *("start_day", "end_day", "split_interval", "split_per_pass", "data_donefile", "data_sleep_second", "prefetch"),
    *("save_delta_frequency", "save_first_base", "early_stop_patience", "early_stop_metric"),
)
"""Keys of such runners that mean something with files only."""
KEPT = 3
"""So many checkpoints are kept, if nothing else is said: a stream has no last epoch."""


class MessageFormat(str, Enum):
    """What a message is."""

    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    SLOTS = "slots"


class Edge(str, Enum):
    """A place in a stream that has a name."""

    EARLIEST = "earliest"
    LATEST = "latest"
    END = "end"


@value
class StreamPlace:
    """A place in a stream: one of these."""

    edge: Edge | None = None
    offset: int | None = None
    """The same in each partition."""
    time_s: float | None = None
    """Of a message's own time."""

    @property
    def text(self) -> str | int:
        """As a config has it."""
        if self.edge is not None:
            return self.edge.value
        if self.offset is not None:
            return self.offset
        from datetime import datetime, timezone  # not before it is needed

        return datetime.fromtimestamp(self.time_s or 0.0, timezone.utc).isoformat()


def _place(key: Key, node: Node) -> StreamPlace:
    if not isinstance(node, Scalar) or node.data is None or isinstance(node.data, bool):
        raise WrongType
    if isinstance(node.data, (int, float)):
        if node.data < 0 or node.data != node.data // 1:
            raise BadValue(f"no offset: {shortened(node.text)}", hint="an offset is an integer, 0 or more")
        return StreamPlace(offset=int(node.data))
    word = node.text.strip()
    if word in key.choices:
        return StreamPlace(edge=Edge(word))
    try:
        return StreamPlace(time_s=TIME.read(key, node))
    except BadValue:
        what = f"expected {', '.join(key.choices)}, an offset, or a time, got {shortened(word)}"
        raise BadValue(
            what, hint="times are written as 2026-01-31T12:00:00, in UTC unless they say otherwise"
        ) from None


def _client(_: Key, node: Node) -> dict[str, str]:
    if not isinstance(node, Section):
        raise WrongType
    found: dict[str, str] = {}
    for entry in node.entries:
        if not isinstance(entry.node, Scalar) or entry.node.data is None:
            raise BadValue(f"{entry.key}: expected a text, a number or a boolean")
        data = entry.node.data
        found[entry.key] = str(data).lower() if isinstance(data, bool) else str(data)
    return found


PLACE = Kind(phrase="a place in a stream: a word, an offset or a time", read=_place)
CLIENT = Kind(phrase="settings of Kafka's client, by name", read=_client)


@settings
class StreamSettings:
    """How a stream is read."""

    ORIGIN = Origin.UMIAK

    format: MessageFormat = setting(
        MessageFormat,
        "What a message is: a JSON object, a row of CSV or TSV (`column_names` names its columns), or a line of slot text.",
        default=MessageFormat.JSON,
        default_text="`json`; with declared slots `slots`",
    )
    start_from: StreamPlace | None = setting(
        PLACE,
        "Where a run begins that does not go on from a checkpoint: `earliest`, `latest`, the same offset in every partition, or a time: "
        "the first message of it or later.",
        default=None,
        default_text="`earliest`",
        choices=(Edge.EARLIEST.value, Edge.LATEST.value),
    )
    until: StreamPlace | None = setting(
        PLACE,
        "Where training ends: `end`, what is there when the run begins; an offset, in every partition; or a time.",
        default=None,
        default_text="never",
        choices=(Edge.END.value,),
    )
    pass_messages: int = setting(
        kinds.WHOLE,
        "Maximum number of messages in a pass, behind which trainers meet, and evaluate and save if it is time.",
        default=200_000,
        least=1,
    )
    wait_s: int = setting(
        kinds.WHOLE,
        "A pass begins when there is a batch for each trainer, or this many seconds after the last one with what is there.",
        key="wait_seconds",
        default=10,
        least=1,
    )
    client: Mapping[str, str] = setting(
        CLIENT,
        "Settings of the client, as [librdkafka names them](streams.md#settings-of-the-client). Secrets are in variables: `${KAFKA_PASSWORD}`.",
        default={},
    )


STREAM = table(StreamSettings)
DATASET_KEY = ours(
    KEY, kinds.MAPPING, "With a `data_path` such as `kafka://broker:9092/topic`: [how the stream is read](#streams)."
)


def is_stream(path: str) -> bool:
    """Whether data is a stream. `umiak.data.streams` has its address; this knows the beginning of it alone."""
    return path.lower().startswith(SCHEME)


def read(
    path: str,
    said: Said,
    findings: Findings,
    unknown: UnknownKeys,
    *,
    has_slots: bool,
    reader: str | None,
    has_columns: bool,
) -> StreamSettings | None:
    """What ``stream`` says of a dataset, whose ``path`` this is; None: it is no stream. What does not go together goes to ``findings``."""
    node = said.node(KEY)
    if not is_stream(path):
        if said.said(KEY):
            why = f"data_path is no stream: {SCHEME}BROKER:9092/TOPIC"
            findings.warning("UM-CONFIG-018", said.key_place(KEY), f"{said.label}: no effect: {KEY}", why=why)
        return None
    section = node if isinstance(node, Section) else Section(place=said.key_place("data_path"))
    found, own = read_settings(StreamSettings, section, f"{said.label}: stream", findings, unknown)
    if has_slots and not own.said("format") and "format" not in own.wrong:
        found = replace(found, format=MessageFormat.SLOTS)
    for fault in client_settings.problems_of(found.client):
        findings.problem("UM-CONFIG-014", own.place("client"), f"{own.label}: client: {fault.what}", hint=fault.hint)
    place = own.place("format") if own.said("format") else said.key_place("data_path")
    what, hint = "", ""
    if reader:
        what = f"a reader class reads files, and this is a stream: {reader}"
        hint = "declare slots, or write `features:`"
    elif found.format is MessageFormat.SLOTS and not has_slots:
        what, hint = "format slots needs declared slots", 'write `sparse_slots: "click 1 2 3"`'
    elif found.format is not MessageFormat.SLOTS and has_slots:
        what = f"slots are declared, and format is {found.format.value}"
        hint = "write `format: slots`, or `features:` in place of the slots"
    elif found.format in (MessageFormat.CSV, MessageFormat.TSV) and not has_columns:
        what = "nothing says what the columns of a message are"
        hint = "write `column_names: [click, user, item]` in the dataset"
    if what:
        findings.problem("UM-CONFIG-022", place, f"{said.label}: {what}", hint=hint)
    return found


def check_runner(
    kind: str,
    phases: Sequence[str],
    evaluated: Sequence[str],
    streaming: Collection[str],
    said: Said,
    findings: Findings,
) -> None:
    """What a runner can't do with a stream; ``streaming``: the phases that read one."""
    found: list[tuple[str, str, str]] = []
    for name in evaluated:
        if name in streaming:
            what = f"phase {name} reads a stream, which has no end: it can't be evaluated on"
            found.append(("evaluate_phase", what, "evaluate on files: `data_path:` of a dataset of its own"))
    if any(name in streaming for name in phases):
        if kind != LEARNS:
            what = f"class {kind} reads files, and the data is a stream"
            found.append(("class", what, f"write `class: {LEARNS}`"))
        elif len(phases) > 1:
            what = "a stream is trained on by one phase, and here are several"
            found.append(("phases", what, "write `phases:` with the one that reads the stream"))
        for key in OF_FILES:
            if said.said(key):
                what, why = f"{said.label}: no effect: {key}", "the data is a stream, which has no days and no epochs"
                findings.warning("UM-CONFIG-018", said.key_place(key), what, why=why)
    for key, what, hint in found:
        findings.problem("UM-CONFIG-023", said.place(key), f"{said.label}: {what}", hint=hint)


def plain(made: StreamSettings) -> dict[str, object]:
    """As a config has it. Secrets are names of variables there as well."""
    found = written(made)
    return {
        name: each.text if isinstance(each, StreamPlace) else each for name, each in found.items() if each is not None
    }

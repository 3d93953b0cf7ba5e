"""Every key of a job.yaml, with its kind, its default and its meaning; and what a place changes of them.
Values, and a decider.

The reader, the reference page and the schema for editors are made from these rows. What a role may say, the job may say
for all of its roles. `on: {lab: {...}}` is laid over the rest of the file: a key of it takes the place of the job's,
``null`` takes it away; `env` is merged variable by variable, `roles` role by role and key by key. Every value keeps its
line.
"""

from __future__ import annotations

import re

from umiak.core.cluster import Role
from umiak.core.decode import Malformed
from umiak.core.devices import DeviceKind
from umiak.core.job import FrameworkName, Replicas, Transfer, replicas
from umiak.core.value import replace
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Key, Kind, WrongType, words
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import Listing, Scalar, Section, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Entry, Node

UNKNOWN = UnknownKeys(page="docs/reference/job.md", short={"nnodes": "nodes", "gpus": "devices"})

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]?i?)b?\Z", re.IGNORECASE | re.ASCII)
_SPAN = re.compile(r"(?:\d{1,9}[dhms])+\Z", re.ASCII)
_PART = re.compile(r"(\d+)([dhms])", re.ASCII)


def _command(_: Key, node: Node) -> tuple[str, ...]:
    return kinds.shell_words(node, "a command line")


def _replicas(_: Key, node: Node) -> Replicas:
    if not isinstance(node, Scalar):
        raise WrongType
    if isinstance(node.data, int) and not isinstance(node.data, bool) and ":" in node.text:
        text = node.text  # YAML 1.1 takes 2:4 for a number to the base of 60
    else:
        text = word_of(node)
    try:
        return replicas(text)
    except Malformed:
        raise BadValue(
            f"expected a number of nodes, got {shortened(text)}", hint="write `2`, or `2:4` for an elastic job"
        ) from None


def _size(_: Key, node: Node) -> int:
    text = word_of(node).strip()
    match = _SIZE.match(text)
    if not match:
        raise BadValue(f"expected a size, got {shortened(text)}", hint="write it as 16GiB or 500MB")
    return round(float(match[1]) * _UNITS[match[2].lower()])


def _span(_: Key, node: Node) -> int:
    text = word_of(node).strip().lower()
    if text.isascii() and text.isdecimal():
        return int(text)
    if not _SPAN.match(text):
        raise BadValue(f"expected a time span, got {shortened(text)}", hint="write it as 90m, 2h or 1d12h")
    return sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(text))


def _variables(_: Key, node: Node) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Section):
        raise WrongType
    for entry in node.entries:
        _check_variable(entry.key)
        if not isinstance(entry.node, Scalar):
            raise BadValue(f"{entry.key} has a value that is no text")
    return tuple((entry.key, _text_of(entry.node)) for entry in node.entries)


def _text_of(node: Node) -> str:
    assert isinstance(node, Scalar)
    return "" if node.data is None else node.text


def _variable_names(_: Key, node: Node) -> tuple[str, ...]:
    names = tuple([word_of(each) for each in node.items] if isinstance(node, Listing) else word_of(node).split())
    for name in names:
        _check_variable(name)
    return names


def _check_variable(name: str) -> None:
    if not _VARIABLE.match(name):
        raise BadValue(
            f"expected a name of a variable, got {shortened(name) or 'nothing'}", hint="use letters, digits and _"
        )


def _patterns(_: Key, node: Node) -> tuple[str, ...]:
    return tuple([word_of(each) for each in node.items]) if isinstance(node, Listing) else (word_of(node),)


def _transfers(_: Key, node: Node) -> tuple[Transfer, ...]:
    """``train_data: s3://bucket/day1``: where the job sees it, and where it is kept."""
    if not isinstance(node, Section):
        raise WrongType
    transfers = []
    for entry in node.entries:
        if not isinstance(entry.node, Scalar) or not isinstance(entry.node.data, str):
            raise BadValue(f"{entry.key} needs a place", hint="write it as `train_data: s3://bucket/day1`")
        path = entry.key
        if path.startswith("/") or ".." in path.split("/"):
            raise BadValue(f"outside of the working directory: {shortened(path)}")
        transfers.append(Transfer(url=entry.node.data.strip(), path=path))
    return tuple(transfers)


COMMAND = Kind(phrase="a command line or a list of words", read=_command)
REPLICAS = Kind(phrase="a number of nodes, or least:most", read=_replicas)
SIZE = Kind(phrase="a size, as in 16GiB", read=_size)
SPAN = Kind(phrase="a time span, as in 2h", read=_span)
VARIABLES = Kind(phrase="a mapping from names of variables to texts", read=_variables)
VARIABLE_NAMES = Kind(phrase="names of variables", read=_variable_names)
PATTERNS = Kind(phrase="a pattern or a list of patterns", read=_patterns)
TRANSFERS = Kind(phrase="a mapping from paths to URLs", read=_transfers)

ROLE = (
    Key(name="command", meaning="Script with arguments, `-m module`, or a program.", kind=COMMAND),
    Key(name="nodes", meaning="Number of nodes; `2:4` for an elastic job.", kind=REPLICAS, default_said="1"),
    Key(
        name="workers",
        meaning="Worker processes per node.",
        kind=kinds.WHOLE,
        least=1,
        default_said="one per device, or 1",
    ),
    Key(name="cpus", meaning="CPU cores per node.", kind=kinds.NUMBER, least=0, default_said="the place decides"),
    Key(name="memory", meaning="Memory per node.", kind=SIZE, default_said="the place decides"),
    Key(name="devices", meaning="Accelerators per node.", kind=kinds.WHOLE, least=0, default=0),
    Key(
        name="device", meaning="Kind of accelerator.", kind=kinds.CHOICE, choices=words(DeviceKind), default_said="any"
    ),
    Key(name="shared_memory", meaning="Size of `/dev/shm` per node, where it is limited.", kind=SIZE),
    Key(name="env", meaning="Environment variables of the workers.", kind=VARIABLES),
)

JOB = (
    Key(name="name", meaning="Name of the job.", kind=kinds.NAME, required=True),
    Key(
        name="framework",
        meaning="Framework that the script imports; `local` and ssh hosts are checked for it.",
        kind=kinds.CHOICE,
        choices=words(FrameworkName),
        default=FrameworkName.NONE.value,
    ),
    Key(name="image", meaning="Container image. An error on places whose nodes are no containers.", kind=kinds.TEXT),
    *ROLE,
    Key(
        name="roles",
        meaning="Parameter-server jobs: a mapping with `server`, `trainer` and `heter`, each with the keys above.",
        kind=kinds.MAPPING,
    ),
    Key(
        name="secrets",
        meaning="Names of variables to pass on from your environment. Their values are never written to a readable file.",
        kind=VARIABLE_NAMES,
    ),
    Key(
        name="files",
        meaning="Directory to send to the nodes, without what `.gitignore` and `.umiakignore` exclude. Files that look like secrets are an error.",
        kind=kinds.PATH,
    ),
    Key(
        name="include",
        meaning="Patterns of the only files to send; also how to send a file that looks like a secret.",
        kind=PATTERNS,
    ),
    Key(name="exclude", meaning="Patterns of files not to send.", kind=PATTERNS),
    Key(
        name="inputs",
        meaning="Data to fetch before the start: path in the working directory, then its URL.",
        kind=TRANSFERS,
    ),
    Key(
        name="outputs",
        meaning="Data to store after the end: path in the working directory, then its URL.",
        kind=TRANSFERS,
    ),
    Key(name="restarts", meaning="Restarts after a failure.", kind=kinds.WHOLE, least=0, default=0),
    Key(name="time_limit", meaning="Time after which the job is stopped.", kind=SPAN),
    Key(
        name="on",
        meaning="What differs on a place: a mapping from names of places to mappings with the keys above, but for `name`.",
        kind=kinds.MAPPING,
    ),
)

ROLES = {role.value: role for role in Role}


KEY = "on"
KEPT = ("name", KEY)
"""Keys of a job that no place changes: the name is the job's own."""
_MERGED = {"env": False, "roles": True}
"""Keys that are merged, and whether their own mappings are merged as well."""


def merged(tree: Section, override: Section) -> Section:
    """The job of one place. What no place may change is left as it is."""
    rest = replace(tree, entries=tuple([each for each in tree.entries if each.key != KEY]))
    for entry in override.entries:
        if entry.key not in KEPT:
            rest = rest.put(_laid_over(rest.get(entry.key), entry))
    return rest


def _laid_over(below: Entry | None, above: Entry) -> Entry:
    if above.key not in _MERGED or below is None:
        return above
    if not isinstance(below.node, Section) or not isinstance(above.node, Section):
        return above
    node = replace(above.node, entries=below.node.entries)
    for entry in above.node.entries:
        old = node.get(entry.key)
        new = entry.node
        if _MERGED[above.key] and old is not None and isinstance(old.node, Section) and isinstance(new, Section):
            new = merged(old.node, new)  # a role, whose keys are the job's
        node = node.put(replace(entry, node=new))
    return replace(above, node=node)

"""Finds a config and reads it. An adapter: the only module here that touches files before training begins.

load("config.yaml")                 a file
load("models/rank/dnn")             a directory that has one
load("umiak.models.rank.dnn")       a model that comes with umiak; ``paddlerec.models.rank.dnn`` is the same
"""

from __future__ import annotations

import os
import stat

from umiak.core.nearest import nearest
from umiak.core.problem import Exit, UmiakError
from umiak.core.value import value
from umiak.train.config import layouts, workspace
from umiak.train.config.paddlerec import directory as directories
from umiak.train.config.workspace import Library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.schema import yaml_tree
    from umiak.train.config.layouts import Reading
    from umiak.train.config.paddlerec.directory import ModelDirectory

CONFIG = "config.yaml"
MOST_BYTES = 4 << 20
"""A config is read by people; one that is larger than this is something else."""
MOST_SHOWN = 5
"""Configs that a hint names."""
PIPE_WAIT_S = 5.0
"""How long somebody may take to open the other end of a named pipe."""


@value
class Source:
    """A config's file and its text."""

    path: str
    text: str

    @property
    def directory(self) -> str:
        return os.path.dirname(self.path) or "."


def load(named: str, said: Iterable[str] = (), library: Library | None = None) -> tuple[Source, Reading]:
    """Find, read and check a config; ``said`` are the overrides of the command line."""
    library = library or installed()
    source = read(find(named, library))
    said = tuple(said)
    made = layouts.read(
        source.text,
        source=source.path,
        directory=source.directory,
        library=library,
        said=said,
        beside=beside(_workspace(source, said), _models(source, said)),
    )
    return source, made


def beside(directory: str, named: Iterable[str] = ()) -> ModelDirectory:
    """The Python files of a directory, as far as they say in which form the model is; and those that are named."""
    try:
        names = [name for name in os.listdir(directory) if name.endswith(".py")]
    except OSError:
        names = []
    texts = {name: _python(os.path.join(directory, name)) for name in names}
    return directories.directory(texts, {os.path.normpath(path): _python(path) for path in named})


def _models(source: Source, said: tuple[str, ...]) -> list[str]:
    """The files of models that a config of the older layout names."""
    import re

    named = re.findall(r"""\bmodel:[ \t]*["']?([^"'#,\n]+?\.py)\b""", source.text)
    named += [text.partition("=")[2].strip() for text in said if text.partition("=")[0].strip().endswith(".model")]
    directory = _workspace(source, said)
    return [each.replace("{workspace}", directory) for each in named]


def _python(path: str) -> str:
    """The text of a Python file; nothing where it can't be read, which is told when it is needed."""
    try:
        if not os.path.isfile(path):  # a named pipe would wait for its writer
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return ""


def _workspace(source: Source, said: tuple[str, ...]) -> str:
    """The directory in which a config of the newer layout looks for its model: its own, unless it says another one."""
    import re  # not before it is needed

    named = [text.partition("=")[2] for text in said if text.partition("=")[0].strip() == "workspace"]
    named = named or re.findall(r"^workspace:[ \t]*([^#\n]*)", source.text, re.MULTILINE)
    path = named[-1].strip().strip("\"'") if named else ""
    return path or source.directory


def find(named: str, library: Library) -> str:
    """The path of the config that a person named."""
    if workspace.is_dotted(named) and not os.path.exists(named):
        directory = library.directory(named)
        if directory is None:
            what, hint = library.missing(named)
            raise UmiakError.of("UM-CONFIG-002", what, hint=hint)
        return os.path.join(directory, CONFIG)
    if os.path.isdir(named):
        return os.path.join(named, CONFIG)
    return named


def read(path: str) -> Source:
    """The text of a config."""
    try:
        data = _bytes(path)
    except OSError as error:
        what = f"can't be read: {error.strerror}"
        hint = _nearby(path) if isinstance(error, FileNotFoundError) else None
        status = Exit.BAD_REQUEST if isinstance(error, FileNotFoundError) else Exit.REFUSED
        raise UmiakError.of("UM-CONFIG-001", what, hint=hint, where=path, exit_status=status) from None
    if len(data) > MOST_BYTES:
        raise UmiakError.of("UM-CONFIG-001", f"larger than {MOST_BYTES >> 20} MB", where=path)
    try:
        return Source(path=path, text=data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        what, hint = f"not UTF-8: byte 0x{data[error.start]:02x}", "a config is a text; save it as UTF-8"
        raise UmiakError.of("UM-CONFIG-003", what, hint=hint, where=f"{path}:{line}:{column}") from None


def place_of(path: str, *steps: str) -> str:
    """Where a config says something, as ``config.yaml:12:5``: as many steps down as there are. In a list, a step is the entry of this name."""
    from umiak.schema import yaml_tree
    from umiak.schema.findings import Findings
    from umiak.schema.yaml_tree import Listing, Section

    try:
        node = yaml_tree.parse(read(path).text, path, Findings())
    except UmiakError:
        return path
    place = path
    for step in steps:
        if isinstance(node, Section) and (entry := node.get(step)) is not None:
            node, place = entry.node, str(entry.place)
        elif isinstance(node, Listing):
            node = next((each for each in node.items if isinstance(each, Section) and step in _names(each)), None)
            if node is None:
                break
            place = str(node.place)
        else:
            break
    return place


def _names(node: yaml_tree.Section) -> tuple[str, ...]:
    """What an entry of a list is called; it may stand for several."""
    from umiak.schema import kinds
    from umiak.schema.yaml_tree import Listing

    entry = node.get("name")
    if entry is None:
        return ()
    items = entry.node.items if isinstance(entry.node, Listing) else (entry.node,)
    return tuple(kinds.word_of(each) for each in items)


def _bytes(path: str) -> bytes:
    """What is in a file, up to one byte more than a config may have."""
    # To open a named pipe would take for ever if nobody is at its other end.
    with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        data = file.read(MOST_BYTES + 1)
        if data == b"" and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            _await_writer(path, file.fileno())
        os.set_blocking(file.fileno(), True)
        data = data or b""
        while len(data) <= MOST_BYTES and (more := file.read(MOST_BYTES + 1 - len(data))):
            data += more
    return data


def _await_writer(path: str, pipe: int) -> None:
    """Return when somebody has begun to write to a named pipe, or has been there."""
    import select

    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    if not waiting.poll(PIPE_WAIT_S * 1000):
        what = f"a pipe without a writer for {PIPE_WAIT_S:g} s"
        raise UmiakError.of("UM-CONFIG-001", what, where=path)


def _nearby(path: str) -> str:
    """What may have been meant by a path that leads nowhere."""
    directory, name = os.path.split(path)
    try:
        there = sorted(each for each in os.listdir(directory or ".") if each.endswith((".yaml", ".yml")))
    except OSError:
        return f"the directory is not there either: {directory}"
    stems = {os.path.splitext(each)[0]: each for each in there}
    meant = nearest(os.path.splitext(name)[0], stems)
    if meant:
        return f"did you mean `{os.path.join(directory, stems[meant])}`?"
    if name == CONFIG and there:
        shown = [f"`{os.path.join(directory, each)}`" for each in there[:MOST_SHOWN]]
        return f"did you mean {shown[0]}?" if len(there) == 1 else f"there are {', '.join(shown)}"
    return "name a config's file or directory, or a model of the zoo: `-m umiak.models.rank.dnn`"


def installed() -> Library:
    """The models that came with this umiak."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    models = os.path.join(root, "models")
    found = []
    for directory, inner, files in os.walk(models):
        if CONFIG in files:
            found.append(os.path.relpath(directory, models).replace(os.sep, "."))
            inner.clear()
    return Library(root=root, models=tuple(sorted(found)))

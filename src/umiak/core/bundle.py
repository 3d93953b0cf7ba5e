"""Everything that a submission would write and run, before any of it happens. Values, and a decider that prints them.

    bundle = Bundle(files=(BundleFile(path="job.sh", text="..."),), commands=(("sbatch", "job.sh"),))
    print(shown(bundle))

A backend renders a job into one of these; ``--dry-run`` prints it, a test compares it with what it was yesterday, and
only then an adapter writes the files and runs the commands. Secrets have no text here, only a name: what was never
rendered can't leak. What a dry run can't know is a `placeholder`, which looks like nothing else.
"""

from __future__ import annotations

from umiak.core.shown import inert, one_line, size_text
from umiak.core.value import value

ORDINARY = 0o644
PRIVATE = 0o600
_AT_START, _NOT_HERE = "known at start", "not known here"


@value
class BundleFile:
    """A file that is written, here or on every node."""

    path: str
    """From the run's directory."""
    text: str
    mode: int = ORDINARY
    is_on_nodes: bool = True
    """Whether it goes to the nodes."""


@value
class SecretFile:
    """A file whose content is put in at the last moment, readable for its owner alone."""

    path: str
    variable: str
    """The variable of which it holds the value."""


@value
class TravellingFile:
    """A file of the job that is sent as it is."""

    path: str
    """From the directory that is sent."""
    size_bytes: int


@value
class Bundle:
    """Files first, then commands in order."""

    files: tuple[BundleFile | SecretFile, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    requests: tuple[str, ...] = ()
    """Where a place is an API: what it is sent, as text that people can read."""
    sent_from: str = ""
    """The directory of the job's own files."""
    sent: tuple[TravellingFile, ...] = ()
    """Those of them that are sent."""

    @property
    def sent_bytes(self) -> int:
        return sum(each.size_bytes for each in self.sent)


def placeholder(what: str, *, is_missing: bool = False) -> str:
    """Stands for what a plan can't say: known when the job starts, or not known on this machine."""
    return f"<{_NOT_HERE if is_missing else _AT_START}: {what}>"


def placeholders(bundle: Bundle) -> tuple[str, ...]:
    """Every placeholder of a plan, once."""
    import re

    texts = [file.path for file in bundle.files]
    texts += [file.text for file in bundle.files if isinstance(file, BundleFile)]
    texts += [*bundle.requests, *(word for words in bundle.commands for word in words)]
    names = re.findall(f"<(?:{_NOT_HERE}|{_AT_START}): [^<>\n]*>", "\n".join(texts))
    return tuple(dict.fromkeys(names))


def shown(bundle: Bundle) -> str:
    """All of it as text."""
    parts = []
    for file in bundle.files:
        if isinstance(file, SecretFile):
            parts.append(f"# file {file.path}, mode {PRIVATE:o}: the value of {file.variable}, not shown\n")
        else:
            parts.append(f"# file {file.path}, mode {file.mode:o}\n{_ended(inert(file.text))}")
    parts += [f"# request\n{_ended(inert(each))}" for each in bundle.requests]
    if bundle.sent_from:
        parts.append(_sent(bundle))
    if bundle.commands:
        parts.append("# run\n" + "".join(f"{_quoted(each)}\n" for each in bundle.commands))
    if marks := placeholders(bundle):
        parts.append("# placeholders, for what this plan can't know\n" + "".join(f"{each}\n" for each in marks))
    return "\n".join(parts)


def _sent(bundle: Bundle) -> str:
    count = "1 file" if len(bundle.sent) == 1 else f"{len(bundle.sent)} files"
    lines = [f"# sent from {one_line(bundle.sent_from)}: {count}, {size_text(bundle.sent_bytes)}"]
    lines += [f"{size_text(each.size_bytes):>12}  {one_line(each.path)}" for each in bundle.sent]
    return "\n".join([*lines, ""])


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


def _quoted(words: tuple[str, ...]) -> str:
    import shlex  # of a dry run only: a launch never pays for it

    return inert(" ".join(map(shlex.quote, words)))

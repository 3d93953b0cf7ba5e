"""Everything that a submission would write and run, before any of it happens. Values, and a decider that prints them.

    bundle = Bundle(files=(BundleFile(path="job.sh", text="..."),), commands=(("sbatch", "job.sh"),))
    print(shown(bundle))

A backend renders a job into one of these; ``--dry-run`` prints it, a test compares it with what it was yesterday, and only then
an adapter writes the files and runs the commands. Secrets have no text here, only a name: what was never rendered can't leak.
"""

from __future__ import annotations

from umiak.core.shown import inert
from umiak.core.value import value

ORDINARY = 0o644
PRIVATE = 0o600


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
class Bundle:
    """Files first, then commands in order."""

    files: tuple[BundleFile | SecretFile, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    requests: tuple[str, ...] = ()
    """Where a place is an API: what it is sent, as text that people can read."""


def shown(bundle: Bundle) -> str:
    """All of it as text."""
    parts = []
    for file in bundle.files:
        if isinstance(file, SecretFile):
            parts.append(f"# file {file.path}, mode {PRIVATE:o}: the value of {file.variable}, not shown\n")
        else:
            parts.append(f"# file {file.path}, mode {file.mode:o}\n{_ended(inert(file.text))}")
    parts += [f"# request\n{_ended(inert(each))}" for each in bundle.requests]
    if bundle.commands:
        parts.append("# run\n" + "".join(f"{_quoted(each)}\n" for each in bundle.commands))
    return "\n".join(parts)


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


def _quoted(words: tuple[str, ...]) -> str:
    import shlex  # of a dry run only: a launch never pays for it

    return inert(" ".join(map(shlex.quote, words)))

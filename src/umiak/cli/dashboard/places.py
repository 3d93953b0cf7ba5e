"""The places of this person for the dashboard, which does not know them: their names, and the commands that ask them. An adapter.

commands = commands_of(environ)
commands.known()                      places and what is wrong in their files
commands.questions["doctor"]("lab")   the command line that asks one
"""

from __future__ import annotations

import sys

from umiak.core.shown import one_line
from umiak.dashboard.outside.given import KnownPlace, PlaceCommands, RemoteCommands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.submit.backend import SubmitContext

UMIAK = (sys.executable, "-m", "umiak.cli.main")
LIMIT_S = 20


def commands_of(environ: Mapping[str, str]) -> PlaceCommands:
    """For the person and the directory of this process."""
    from umiak.submit import configuration

    context = configuration.context(environ)
    return PlaceCommands(
        known=lambda: _known(context),
        questions={
            "doctor": lambda name: (*UMIAK, "doctor", f"--on={name}", "--only=place", f"--timeout={LIMIT_S}", "--json"),
            "queue": lambda name: (*UMIAK, "list", f"--on={name}", "--everybody", "--all", "--json"),
        },
    )


def remote_commands() -> RemoteCommands:
    """What asks places about runs."""
    return RemoteCommands(
        queue=lambda name: (*UMIAK, "list", f"--on={name}", "--all", "--json"),
        status=lambda run: (*UMIAK, "status", "--json", run),
        logs=lambda run, count: (*UMIAK, "logs", "--json", f"--tail={count}", run),
    )


def cancel_command(run_id: str) -> Sequence[str]:
    """What cancels a submitted run."""
    return (*UMIAK, "cancel", "--json", run_id)


def _known(context: SubmitContext) -> tuple[Sequence[KnownPlace], Sequence[str]]:
    from umiak.submit import configuration

    reading = configuration.read(context)
    found = [
        KnownPlace(
            name=each.name,
            backend=each.backend,
            source=each.settings.place.source,
            is_default=each.name == reading.default,
        )
        for each in reading.places.values()
    ]
    problems = [one_line(" ".join(each.lines("")), 1000).lstrip(": ") for each in reading.problems]
    return found, problems

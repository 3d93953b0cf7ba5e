"""`umiak train --on PLACE` and `-b backend.yaml`: a config as a job, by the way of every submission. A program."""

from __future__ import annotations

import os

from umiak.adapters import trusted_files
from umiak.cli import train_job
from umiak.cli.runs import asking, submit
from umiak.core.problem import UmiakError
from umiak.core.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.cli.output import Printer
    from umiak.core.job import Job
    from umiak.schema.flags import Parsed
    from umiak.submit.flow import Flow
    from umiak.submit.places import NamedPlace

LOCAL = "local"


def main(parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> int:
    """Submit the config. The result is the exit status."""
    flow = asking.flow(environ, printer)
    place = _place(flow, parsed, printer)
    job = _job(parsed, environ, flow.context.directory, printer)
    if not parsed.said("nnodes"):
        job = flow.sized(job, place)
    if place.backend != LOCAL:
        printer.note(f"nodes of {place.name} need Python 3.10, umiak with the extra `train`, and PaddlePaddle")
    return submit.send(job, place, flow, parsed, printer)


def _job(parsed: Parsed, environ: Mapping[str, str], directory: str, printer: Printer) -> Job:
    from umiak.train.config import load, workspace
    from umiak.train.plan.plan import code_of, plan
    from umiak.train.plan.process_role import ProcessRole

    source, reading = load.load(parsed.text("model"), parsed.texts.get("override", ()))
    printer.problems(reading.warnings, "warning")
    if reading.config is None:
        raise UmiakError(*reading.problems)
    made = plan(reading.config, ProcessRole(), source.path)
    trusted_files.check_chosen(source.path, code_of(made), environ)
    model, is_sent = parsed.text("model"), True
    if workspace.is_dotted(model) and not os.path.exists(model):
        is_sent = False  # nodes have it as a part of umiak
    else:
        model = os.path.relpath(model, directory)
        if model.startswith(os.pardir):
            raise UmiakError.of(
                "UM-TRAIN-008",
                f"the config is outside of the working directory: {parsed.text('model')}",
                why="nodes get the working directory, and run the job in it",
                hint=f"cd {os.path.dirname(os.path.abspath(parsed.text('model')))} first",
            )
    name = train_job.name_of(parsed.text("model"), directory)
    nodes = parsed.number("nnodes") or 1
    return train_job.job_of(made, parsed, name=name, model=model, nodes=nodes, is_sent=is_sent)


def _place(flow: Flow, parsed: Parsed, printer: Printer) -> NamedPlace:
    if not parsed.said("backend"):
        return flow.place(parsed.text("on"))
    from umiak.submit import backend_yaml
    from umiak.submit.registry import BackendNames

    path = parsed.text("backend")
    try:
        text = trusted_files.read_text(path, flow.context.environ)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        hint = "-b names a backend.yaml, from the working directory on"
        raise UmiakError.of("UM-SUBMIT-220", f"can't be read: {path}", why=why, hint=hint) from None
    reading = backend_yaml.read(text, path, BackendNames())
    printer.problems(reading.warnings, "warning")
    if reading.place is None:
        raise UmiakError(*reading.problems)
    return replace(reading.place, name=reading.place.backend)

"""`umiak submit`: a job.yaml, or a command line, to a place. A program."""

from __future__ import annotations

from umiak.cli.runs import asking
from umiak.cli.runs.logs import show as show_line
from umiak.cli.runs.submit_flags import FLAGS, OF_A_JOB, job_of
from umiak.core import bundle
from umiak.core.job import Job
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import replace
from umiak.schema import command_line
from umiak.schema.flags import FlagFindings
from umiak.submit.backend import DEFAULT_GRACE_S, LogsWanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.submit.flow import Flow, Submitted
    from umiak.submit.job_file import JobReading
    from umiak.submit.jobs.dry_run import SubmissionPlan
    from umiak.submit.places import NamedPlace


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak submit`. The result is the exit status; with --foreground the job's."""
    parsed = parse(argv, environ)
    if parsed.wants_help:
        return printer.page("submit")
    if parsed.truth("schema"):
        from umiak.submit import job_schema

        printer.data(job_schema.text())
        return Exit.DONE
    asked = _job(parsed, environ, printer)
    flow = asking.flow(environ, printer)
    place = flow.place(parsed.text("on") or None)
    job = asked if isinstance(asked, Job) else _job_on(asked, place.name, flow, printer)
    return send(job, place, flow, parsed, printer)


def send(job: Job, place: NamedPlace, flow: Flow, parsed: Parsed, printer: Printer) -> int:
    """Check a job and submit it, or show what that would do: the flags dry_run, key, json and foreground say how."""
    if job.files and parsed.truth("allow_secret_files"):
        job = replace(job, files=replace(job.files, allow_secret_files=True))
    if parsed.truth("dry_run"):
        return _show(flow.dry_run(job, place), parsed, printer)
    if problems := flow.check(job, place):
        from umiak.submit.node import own_directory

        is_refused = any(each.code == own_directory.CODE for each in problems)
        raise UmiakError(*problems, exit_status=Exit.REFUSED if is_refused else Exit.BAD_REQUEST)
    printer.problems(flow.warnings(job, place), "warning")
    submitted = flow.submit(job, place, key=parsed.text("key") or None)
    _tell(submitted, flow, parsed, printer)
    return _follow(submitted, flow, parsed, printer) if parsed.truth("foreground") else Exit.DONE


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Parsed:
    """The words of a command line; what is wrong with them is in it."""
    return command_line.parse(FLAGS, argv, environ, command="umiak submit", starts_program=False, arguments=1)


def _job_on(reading: JobReading, place: str, flow: Flow, printer: Printer) -> Job:
    """The job as its place gets it; what was changed for it is told, and places that nobody knows."""
    from umiak.schema.findings import choices

    known = flow.reading.places
    for override in reading.overrides:
        if override.name == place and override.keys:
            printer.note(f"{override.at}: on {place}: {', '.join(override.keys)}")
        elif override.name not in known:
            what = f"job: on: there is no place named {override.name} here"
            hint = (
                f"{choices(override.name, sorted(known))}; the files of places are umiak.toml and your own config.toml"
            )
            printer.problems([Problem(code="UM-SUBMIT-374", where=str(override.at), what=what, hint=hint)], "warning")
    job = reading.job_on(place)
    assert job is not None
    return job


def _job(parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> Job | JobReading:
    findings = FlagFindings(parsed)
    if not parsed.arguments and not parsed.program:
        hint = "write `umiak submit job.yaml`, or `umiak submit --nnodes 2 -- train.py --lr 0.1`"
        findings.problem("UM-SUBMIT-018", "expected a job file or a command, got neither", hint=hint)
    elif parsed.arguments and parsed.program:
        what = f"a job file and a command: {parsed.arguments[0]} and {parsed.program[0]}"
        findings.problem("UM-SUBMIT-018", what, hint="the file says what is run; leave one of them out")
    elif parsed.arguments and not parsed.arguments[0].endswith((".yaml", ".yml")):
        word = parsed.arguments[0]
        hint = f"to run it without a file, put -- before it: `umiak submit -- {word}`"
        if not word.endswith(".py"):
            hint = f"the name of a job file ends with .yaml; {hint}"
        findings.problem("UM-SUBMIT-018", f"expected a job file (.yaml), got {word}", hint=hint)
    elif parsed.arguments:
        for name in OF_A_JOB:
            if parsed.said(name):
                hint = f"say it in {parsed.arguments[0]}"
                findings.problem("UM-SUBMIT-018", f"not with a job file: {parsed[name].said_as}", hint=hint)
    job = job_of(parsed, findings) if parsed.program else None
    UmiakError.raise_any(findings.problems)
    return job or _from_file(parsed.arguments[0], environ, printer)


def _from_file(path: str, environ: Mapping[str, str], printer: Printer) -> JobReading:
    from umiak.adapters import trusted_files
    from umiak.submit import job_file

    try:
        text = trusted_files.read_text(path, environ, "job file")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        hint = "paths count from the working directory" if isinstance(error, OSError) else "a job file is YAML in UTF-8"
        raise UmiakError.of("UM-SUBMIT-019", f"the job file can't be read: {path}", why=why, hint=hint) from None
    reading = job_file.read(text, path)
    printer.problems(reading.warnings, "warning")
    if reading.job is None:
        raise UmiakError(*reading.problems)
    return reading


def _tell(submitted: Submitted, flow: Flow, parsed: Parsed, printer: Printer) -> None:
    """First the handle, then the record that it was seen: killed in between, the same command tells it again."""
    handle = submitted.handle
    if submitted.is_repeated:
        printer.note(f"this job was submitted before, nothing was started twice: {handle}")
    if submitted.unrecorded is not None:
        problem = replace(submitted.unrecorded, what=f"{submitted.unrecorded.what}: keep the handle of this run")
        printer.problems([problem], "warning")
    try:
        _tell_handle(submitted, parsed, printer)
    except UmiakError:
        printer.talk(f"the job was started: {handle}")  # the other stream may have room
        raise
    flow.told(submitted)


def _tell_handle(submitted: Submitted, parsed: Parsed, printer: Printer) -> None:
    handle = submitted.handle
    if parsed.truth("json"):
        record = submitted.record
        data = {"handle": str(handle), "run": record.run_id, "name": record.name, "place": record.place}
        printer.data(asking.as_json({**data, "repeated": submitted.is_repeated}))
    elif parsed.truth("foreground"):
        printer.talk(f"submitted: {handle}")
    else:
        printer.data(str(handle))
        printer.talk(f"follow it: umiak logs -f {handle}")


def _follow(submitted: Submitted, flow: Flow, parsed: Parsed, printer: Printer) -> int:
    from umiak.adapters.process import OneInterrupt

    run = flow.find(str(submitted.handle))
    with OneInterrupt():
        try:
            for line in flow.logs(run, LogsWanted(follow=True)):
                show_line(line, printer, is_json=parsed.truth("json"))
        except KeyboardInterrupt:
            printer.talk(f"cancelling {run.handle}; Ctrl-C again leaves it")
            run.backend.cancel(run.handle, DEFAULT_GRACE_S)
    return int(flow.wait(run).exit_status or Exit.DONE)


def _show(plan: SubmissionPlan, parsed: Parsed, printer: Printer) -> int:
    data = {**_bundle_data(plan.bundle), **plan.data()}
    printer.data(asking.as_json(data) if parsed.truth("json") else bundle.shown(plan.bundle))
    printer.problems(plan.warnings, "warning")
    printer.problems(plan.missing, "missing")
    return Exit.DONE


def _bundle_data(made: bundle.Bundle) -> dict[str, object]:
    files: list[dict[str, object]] = []
    for file in made.files:
        if isinstance(file, bundle.SecretFile):
            files.append({"path": file.path, "mode": f"{bundle.PRIVATE:o}", "secret": file.variable})
        else:
            files.append({"path": file.path, "mode": f"{file.mode:o}", "text": file.text})
    return {"files": files, "requests": list(made.requests), "commands": [list(each) for each in made.commands]}

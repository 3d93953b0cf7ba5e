"""A run's files read into facts: whether it is being written to, how it says it is, its last numbers. An adapter.

    facts_of("ctr-3f", source, Locks(), host_names())

Only ends of files are read, so that a run of a week costs what one of a minute does. What can't be read is a reason in the facts.
"""

from __future__ import annotations

import os
import socket

from umiak.core import light_json, node_report
from umiak.dashboard import files
from umiak.dashboard.facts import FactsOfRun, LauncherFacts, TrainerFacts
from umiak.dashboard.finite import time_of
from umiak.dashboard.search import JOURNAL, METRICS
from umiak.dashboard.trained.curves import Curves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.dashboard.files import Locks
    from umiak.dashboard.rows import RunSource

OUTCOME = "outcome.json"
LARGEST_REPORT = 1 << 16
LARGEST_TAIL = 1 << 14
JOURNAL_TAIL = 1 << 17


def host_names() -> frozenset[str]:
    """What launchers of this machine call it."""
    name = socket.gethostname()
    return frozenset({name, name.partition(".")[0], "localhost", "127.0.0.1", "::1", ""})


def facts_of(run_id: str, source: RunSource, locks: Locks, hosts: frozenset[str]) -> FactsOfRun:
    """Never fails: what is wrong is in the facts."""
    launchers = tuple([_launcher(each, locks, hosts) for each in source.launch_directories])
    trainer = _trainer(source.metrics_directory, locks) if source.metrics_directory else None
    directory = source.metrics_directory or (source.launch_directories or ("",))[0]
    return FactsOfRun(
        id=run_id,
        name=_name(source, launchers, directory),
        directory=directory,
        launchers=launchers,
        trainer=trainer,
        submitted=source.submitted,
    )


def _name(source: RunSource, launchers: tuple[LauncherFacts, ...], directory: str) -> str:
    if source.submitted is not None:
        return source.submitted.name
    job_ids = [each.job_id for each in launchers if each.job_id and each.job_id != "default"]
    if job_ids and not source.metrics_directory:
        return job_ids[0]
    above, name = os.path.split(directory)
    if name in ("log", "logs") or name.startswith("node"):
        return os.path.basename(above) or name
    outer = os.path.basename(above)
    return f"{os.path.basename(os.path.dirname(above))}/{name}" if outer == "run" else f"{outer}/{name}"


def _launcher(directory: str, locks: Locks, hosts: frozenset[str]) -> LauncherFacts:
    journal = os.path.join(directory, JOURNAL)
    report, problem = None, ""
    changed_s = 0.0
    try:
        with files.RunFile.open(os.path.join(directory, node_report.FILE)) as file:
            text = file.read(0, LARGEST_REPORT)
            changed_s = file.changed_s
        report = node_report.from_text(text.decode(errors="replace"))
        if report is None:
            problem = f"{node_report.FILE} can't be understood"
    except FileNotFoundError:
        pass  # a launcher that has just begun
    except OSError as error:
        problem = f"{node_report.FILE} can't be read: {error.strerror}"
    job_id, began_s, nodes = "", None, None
    try:
        job_id, began_s, nodes, written_s = _journal_end(journal)
        changed_s = max(changed_s, written_s)
    except OSError as error:
        problem = problem or f"{JOURNAL} can't be read: {error.strerror}"
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError):
        problem = problem or f"{JOURNAL} can't be understood"
    return LauncherFacts(
        directory=directory,
        report=report,
        is_locked=locks.holds(journal),
        is_here=report is None or report.host in hosts,
        job_id=job_id,
        began_s=began_s,
        nodes=nodes,
        changed_s=changed_s,
        problem=problem,
    )


def _journal_end(path: str) -> tuple[str, float | None, int | None, float]:
    """Name, beginning and nodes of the newest run in a journal, and when it was written to. Of a long journal its end is looked at, and its first
    line, which was the newest run's unless the directory was used again."""
    with files.RunFile.open(path) as file:
        data = file.read(max(0, file.size - JOURNAL_TAIL), JOURNAL_TAIL)
        changed_s = file.changed_s
        at = data.rfind(b'{"run":')
        if at < 0 or (at > 0 and data[at - 1 : at] != b"\n"):
            data, at = file.read(0, 1 << 14) + b"\n" + data[data.find(b"\n") + 1 :], 0
    if not data.strip():
        return "", None, None, changed_s
    begin = light_json.loads(data[at : data.find(b"\n", at) if b"\n" in data[at:] else None])
    nodes = int(begin["setting"]["terms"]["least"])
    formed = data.rfind(b'\n{"formation":')
    if formed > at:
        end = data.find(b"\n", formed + 1)
        if end > 0:
            nodes = int(light_json.loads(data[formed + 1 : end])["cluster"]["size"])
    return str(begin["setting"]["terms"]["job_id"]), time_of(begin["wall"]), nodes, changed_s


def _trainer(directory: str, locks: Locks) -> TrainerFacts:
    path = os.path.join(directory, METRICS)
    curves = Curves()
    problem = ""
    began_s, changed_s = None, 0.0
    try:
        with files.RunFile.open(path) as file:
            changed_s = file.changed_s
            first = file.read(0, 4096)
            began_s = _time_of(first)
            begin = max(0, file.size - LARGEST_TAIL)
            data = file.read(begin, LARGEST_TAIL)
        lines = data[: data.rfind(b"\n") + 1].splitlines()
        curves.feed(lines if begin == 0 else lines[1:])
        if curves.bad_lines and not curves.curves and not curves.events:
            problem = f"{METRICS} can't be understood"
    except OSError as error:
        problem = f"{METRICS} can't be read: {error.strerror}"
    outcome, outcome_problem = _outcome(os.path.join(directory, OUTCOME))
    return TrainerFacts(
        directory=directory,
        is_locked=locks.holds(path),
        outcome=outcome,
        began_s=began_s,
        changed_s=changed_s,
        curves=curves,
        problem=problem or outcome_problem,
    )


def _outcome(path: str) -> tuple[JsonObject | None, str]:
    try:
        found = light_json.loads(files.head(path, LARGEST_REPORT))
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"{OUTCOME} can't be read: {error.strerror}"
    except ValueError:
        return None, f"{OUTCOME} can't be understood"
    return (found, "") if isinstance(found, dict) else (None, f"{OUTCOME} can't be understood")


def _time_of(first: bytes) -> float | None:
    try:
        return time_of(light_json.loads(first.partition(b"\n")[0])["time"])
    except (ValueError, OverflowError, KeyError, TypeError):
        return None

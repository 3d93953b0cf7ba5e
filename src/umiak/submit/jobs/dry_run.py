"""A plan: what a submission would write, send and run, on a machine that need not be able to submit. A program.

    plan = make(job, place, backend, context)        UmiakError with everything that is wrong with the job
    plan.bundle, plan.missing, plan.warnings

What is wrong with the job is an error, as when it is submitted. What this machine lacks
(an SDK, a key, a client, a secret) is listed, and the plan has placeholders where that would stand.
"""

from __future__ import annotations

from umiak.core.bundle import TravellingFile, placeholders
from umiak.core.decode import encode
from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.submit.backend import FilesSent, OfflineCheck, Remarks
from umiak.submit.jobs import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.bundle import Bundle
    from umiak.core.job import Job
    from umiak.core.problem import Problem
    from umiak.submit.backend import Backend, SubmitContext
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.places import NamedPlace

DRY = "dry-run"
"""In place of the random part of a run's id, so that two dry runs print the same."""


@value
class SubmissionPlan:
    """What `--dry_run` shows."""

    bundle: Bundle
    missing: tuple[Problem, ...] = ()
    """What this machine lacks to submit it."""
    warnings: tuple[Problem, ...] = ()

    def data(self) -> dict[str, object]:
        """For JSON, beside the files and commands."""
        sent = self.bundle.sent
        return {
            "sent": {
                "directory": self.bundle.sent_from or None,
                "count": len(sent),
                "size_bytes": self.bundle.sent_bytes,
                "files": [encode(each) for each in sent],
            },
            "placeholders": list(placeholders(self.bundle)),
            "missing": [encode(each) for each in self.missing],
            "warnings": [encode(each) for each in self.warnings],
        }


def make(job: Job, place: NamedPlace, backend: Backend, context: SubmitContext) -> SubmissionPlan:
    """The plan of a job. Nothing is asked that need not answer, and nothing is written."""
    missing = checks.unset_secrets(job, context.environ)
    wrong = checks.wrong_values(job)
    UmiakError.raise_any(wrong)
    wrong += [*checks.leaks(job, context.environ), *checks.refused(job, place.backend, place.name)]
    if isinstance(backend, OfflineCheck):
        wrong += backend.check_offline(job)
        missing += backend.missing_here(job)
    else:
        wrong += backend.check(job)
    UmiakError.raise_any(wrong)
    run_id = f"{job.name}-{DRY}"
    bundle = backend.render_offline(job, run_id) if isinstance(backend, OfflineCheck) else backend.render(job, run_id)
    return SubmissionPlan(
        bundle=_with_files(bundle, _sent(job, backend, context)),
        missing=tuple(missing),
        warnings=tuple(warnings(job, place, backend)),
    )


def warnings(job: Job, place: NamedPlace, backend: Backend) -> list[Problem]:
    """What has no effect there, or is not as the job asks for it."""
    own = backend.remarks(job) if isinstance(backend, Remarks) else []
    return [*checks.without_effect(job, place.backend), *own]


def _sent(job: Job, backend: Backend, context: SubmitContext) -> FoundFiles | None:
    if isinstance(backend, FilesSent):
        return backend.files_sent(job)
    if job.files is None:
        return None
    from umiak.submit.payload import file_set

    return file_set.collect(job.files, context.directory)


def _with_files(bundle: Bundle, found: FoundFiles | None) -> Bundle:
    if found is None:
        return bundle
    sent = tuple(TravellingFile(path=each.path, size_bytes=each.size_bytes) for each in found.manifest.files)
    return replace(bundle, sent_from=found.root, sent=sent)

"""What keeps a job from running where nodes share a file system. A decider.

elastic_roles(job), missing(files)
"""

from __future__ import annotations

from umiak.core.problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.core.job import Job


def scripts(job: Job) -> tuple[str, ...]:
    """The files that the job's commands name, from its working directory."""
    commands = [job.command_of(role) for role in job.roles]
    return tuple(dict.fromkeys(words[0] for words in commands if words and words[0].endswith(".py")))


def missing(names: Iterable[str]) -> list[Problem]:
    """Scripts that are not there."""
    hint = "paths count from the working directory, or from the directory that `files` names"
    return [Problem(code="UM-SUBMIT-143", what=f"no such file here: {name}", hint=hint) for name in sorted(names)]


def elastic_roles(job: Job, place: str) -> list[Problem]:
    """Servers and their trainers must all know each other from the beginning."""
    if not (job.mode.has_servers and job.nodes.is_elastic):
        return []
    what = f"place {place}: a job with parameter servers can't be elastic: {job.nodes} nodes"
    hint = "write one number of nodes for each role"
    return [Problem(code="UM-SUBMIT-142", what=what, hint=hint)]

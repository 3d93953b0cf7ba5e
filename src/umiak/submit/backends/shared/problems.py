"""What keeps a job from running where nodes share a file system. A decider.

elastic_roles(job, "hpc"), missing(job, "/shared/me/ctr", os.path.exists)
"""

from __future__ import annotations

import posixpath

from umiak.core.problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.job import Job


def missing(job: Job, directory: str, is_there: Callable[[str], bool]) -> list[Problem]:
    """Scripts that are not there. ``directory``: where the person is;
    ``is_there``: whether there is a file of this path.
    """
    root = job.files.root if job.files else "."
    names = sorted(each for each in job.scripts if not is_there(posixpath.join(directory, root, each)))
    hint = "paths count from the working directory, or from the directory that `files` names"
    return [Problem(code="UM-SUBMIT-143", what=f"no such file here: {name}", hint=hint) for name in names]


def elastic_roles(job: Job, place: str) -> list[Problem]:
    """Servers and their trainers must all know each other from the beginning."""
    if not (job.mode.has_servers and job.nodes.is_elastic):
        return []
    what = f"place {place}: a job with parameter servers can't be elastic: {job.nodes} nodes"
    hint = "write one number of nodes for each role"
    return [Problem(code="UM-SUBMIT-142", what=what, hint=hint)]

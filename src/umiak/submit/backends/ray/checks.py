"""What keeps a job from running on a Ray cluster. A decider.

problems(job, settings, files={"train.py"})
"""

from __future__ import annotations

from umiak.core.problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from umiak.core.job import Job
    from umiak.submit.backends.ray.settings import RaySettings

MOST_PACKAGE_BYTES = 100 << 20
"""Of one request to Ray's dashboard."""


def problems(job: Job, settings: RaySettings, files: Collection[str]) -> Iterator[Problem]:
    """All of them. ``files`` are the paths of what is sent."""
    if job.nodes.is_elastic and job.mode.has_servers:
        yield Problem(
            code="UM-SUBMIT-323",
            what=f"a job with parameter servers can't be elastic on Ray: nodes: {job.nodes}",
            why="its servers must stay where they are",
            hint="give each role a number of nodes",
        )
    if job.secrets:
        yield Problem(
            code="UM-SUBMIT-324",
            what=f"secrets can't be kept on Ray: {', '.join(job.secrets)}",
            why="everybody who reaches the cluster can read what a job was given, and runs code as the same user",
            hint="let the nodes read them from files or a service of the cluster, and leave `secrets` out; in a file for several "
            "places: `on: {PLACE: {secrets: []}}`",
        )
    for role in job.roles:
        device = role.resource.device
        if role.resource.devices and not settings.resource_of(device):
            yield Problem(
                code="UM-SUBMIT-325",
                what=f"{role.role.value}: Ray has no resource for devices of kind {device.value if device else 'any'}",
                hint='start Ray\'s nodes with a custom resource for them, and name it: `device_resource = "XPU"`',
            )
    yield from (
        Problem(
            code="UM-SUBMIT-326",
            what=f"{name} is not sent to the nodes",
            why="`files` does not have it" if job.files else "there is no such file here",
            hint="paths count from the working directory, or from `files`; a script of the nodes has an absolute path",
        )
        for name in job.scripts
        if not name.startswith("/") and name.removeprefix("./") not in files
    )

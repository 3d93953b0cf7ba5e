"""What a job becomes for ModelArts: the body of its request, and the keys of a place. A decider.

A job whose nodes are all alike is of the kind ``job``. One with servers is a ``hetero_job``: a task for each role,
called as ModelArts calls them, which is what its containers find in MA_TASK_NAME and VC_<ROLE>_HOSTS. Tasks have no
command of their own in this API, so they name a boot file, which does the same.
"""

from __future__ import annotations

import shlex

from umiak.core.cluster import Role
from umiak.core.problem import Problem
from umiak.schema import kinds
from umiak.schema.settings import setting, settings
from umiak.submit.backends.cloud import settings as cloud
from umiak.submit.backends.cloud.layout import BOOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job, RoleSpec
    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.cloud.layout import CloudLayout, CloudMount
    from umiak.submit.backends.cloud.settings import CloudSettings

PAGE = "docs/how-to/submit-modelarts.md"
TASKS = {Role.SERVER: "ps", Role.TRAINER: "worker", Role.HETER: "heter"}
"""What ModelArts calls a role; `umiak.platforms.roles` reads the same words."""
HOUR_S = 3600


@settings
class ModelArtsSettings:
    """A place with ModelArts."""

    common: CloudSettings = cloud.common(store="obs://bucket/folder", directory="/home/ma-user/umiak")
    project: str = setting(kinds.TEXT, "Project id.", default="", default_text="HUAWEICLOUD_SDK_PROJECT_ID")
    flavor: str = setting(kinds.TEXT, "Flavor of the nodes.", default="", default_text="none, as CPU pools want it")
    server_flavor: str = setting(kinds.TEXT, "Flavor of the nodes with servers.", default="", default_text="`flavor`")
    heter_flavor: str = setting(kinds.TEXT, "Flavor of the heter nodes.", default="", default_text="`flavor`")
    pool: str = setting(kinds.TEXT, "Id of a dedicated resource pool.", default="", default_text="the public pool")
    workspace: str = setting(kinds.TEXT, "Workspace id.", default="0")
    log_path: str = setting(cloud.STORE, "Where ModelArts keeps logs: `obs://bucket/logs`.", default="")
    priority: int | None = setting(kinds.WHOLE, "Priority in the pool, from 1 to 3.", least=1, default=None)

    def flavor_of(self, role: Role) -> str:
        """The flavor of the nodes of a role; empty: none."""
        return {Role.SERVER: self.server_flavor, Role.HETER: self.heter_flavor}.get(role, "") or self.flavor


def problems(job: Job, own: ModelArtsSettings) -> list[Problem]:
    """What keeps a job from ModelArts."""
    problems = cloud.wrong_store(own.common, "ModelArts", "obs")
    if not own.pool and any(not own.flavor_of(each.role) for each in job.roles):
        hint = f"write `flavor =` in [place.{own.common.place}], or `pool =` for a pool of your own"
        problems.append(Problem(code="UM-SUBMIT-270", what="ModelArts' public pool needs a flavor", hint=hint))
    return problems


def body(job: Job, layout: CloudLayout, own: ModelArtsSettings) -> JsonObject:
    """The request."""
    metadata = {"name": layout.name, "workspace_id": own.workspace, "description": f"umiak run {layout.run_id}"}
    spec: JsonObject = {}
    if job.time_limit_s:
        spec["auto_stop"] = {"time_unit": "HOURS", "duration": -(-job.time_limit_s // HOUR_S)}
    if own.priority:
        spec["schedule_policy"] = {"priority": own.priority}
    if len(job.roles) > 1:
        tasks = [_task(job, each, layout, own) for each in job.roles]
        return {"kind": "hetero_job", "metadata": metadata, "tasks": tasks, **({"spec": spec} if spec else {})}
    trainer = job.roles[0]
    algorithm = {
        "code_dir": _obs(_run(layout), own),
        "local_code_dir": _run(layout).path,
        "command": shlex.join(layout.words),
        "engine": {"image_url": job.image or own.common.image},
        **_data(layout, own, is_task=False),
    }
    spec = {"resource": _resource(trainer, own), **_log(own), **spec}
    return {"kind": "job", "metadata": metadata, "algorithm": algorithm, "spec": spec}


def _task(job: Job, role: RoleSpec, layout: CloudLayout, own: ModelArtsSettings) -> JsonObject:
    code = _obs(_run(layout), own)
    return {
        "role": TASKS[role.role],
        "algorithm": {
            "code_dir": code,
            "boot_file": f"{code}{BOOT}",
            "local_code_dir": _run(layout).path,
            "engine": {"image_url": job.image or own.common.image},
            **_data(layout, own, is_task=True),
        },
        "task_resource": _resource(role, own),
        **_log(own),
    }


def _data(layout: CloudLayout, own: ModelArtsSettings, *, is_task: bool) -> JsonObject:
    """By variables, not by arguments, where that can be said: the command has its own."""
    way = {} if is_task else {"access_method": "env"}
    data: JsonObject = {"inputs": [], "outputs": []}
    for each in layout.mounts:
        if each.name != _run(layout).name:
            entry = {"name": each.name, "local_dir": each.path, **way, "remote": {"obs": {"obs_url": _obs(each, own)}}}
            data["outputs" if each.is_written else "inputs"].append(entry)
    return {name: entries for name, entries in data.items() if entries}


def _run(layout: CloudLayout) -> CloudMount:
    return layout.mounts[0]


def _resource(role: RoleSpec, own: ModelArtsSettings) -> JsonObject:
    flavor = {"flavor_id": own.flavor_of(role.role)} if own.flavor_of(role.role) else {}
    pool = {"pool_id": own.pool} if own.pool else {}
    return {**flavor, "node_count": role.nodes.most, **pool}


def _log(own: ModelArtsSettings) -> JsonObject:
    return {"log_export_path": {"obs_url": f"/{own.log_path.partition('://')[2]}/"}} if own.log_path else {}


def _obs(mount: CloudMount, own: ModelArtsSettings) -> str:
    """ModelArts writes a place in OBS as a path whose first part is the bucket."""
    return f"/{mount.bucket or own.common.bucket}/{mount.key}"

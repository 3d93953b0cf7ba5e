"""What is uploaded for a run, where it is in the store, and where a container finds it. A decider.

    in the store                                       in the container
    STORE/launchers/SHA256/umiak-launcher.pyz          DIRECTORY/launcher/
    STORE/files/DIGEST/files.tar.gz                    DIRECTORY/files/
    STORE/runs/NAME/start.json, start.py, node-*.json  DIRECTORY/run/
    STORE/runs/NAME/secrets.json                       DIRECTORY/run/, copied to DIRECTORY/private/

The first two are known by their content, and uploaded once. The cloud brings each of the three directories into the
containers, by a mount or a download: so nothing has to be in the image but Python, and no key of the store goes to a
node.

Why secrets are an object: variables and commands of a job can be read by everybody who may look at the job, and no
cloud of these documents a field that they can't. What may be read of a bucket is decided by its owner, and the object's
own ACL is private. Nodes don't remove it, since a container that is started again needs it once more; the client does
that when it sees the end of the run.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.submit.payload import cloud_plan, node_plan
from umiak.submit.payload.cloud_plan import CloudStart, RolePlan
from umiak.submit.payload.node_plan import PlaceTraits, SentFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job, RoleSpec, Transfer
    from umiak.submit.backends.cloud.settings import CloudSettings

LAUNCHER = "umiak-launcher.pyz"
ARCHIVE = "files.tar.gz"
SECRETS = "secrets.json"
START, BOOT = "start.json", "start.py"
_BOOT = '''"""Starts umiak in this container: the cloud runs this file, or the command that it stands for."""

import os
import sys

os.execv(sys.executable, {words})
'''


@value
class CloudMount:
    """A directory of the store that the cloud brings into every container."""

    name: str
    key: str
    """In the bucket, with a slash at its end."""
    path: str
    is_written: bool = False
    bucket: str = ""
    """Empty: the one of the place."""


@value
class CloudLayout:
    """A run in the store and in its containers."""

    run_id: str
    name: str
    """The job's in the cloud."""
    launcher_key: str
    launcher_sha256: str
    files_key: str = ""
    """Empty: the job has none."""
    digest: str = ""
    run_key: str
    """With a slash at its end."""
    objects: tuple[tuple[str, str], ...] = ()
    """Key and text of what is written for this run; no secret is in it."""
    secrets_key: str
    mounts: tuple[CloudMount, ...] = ()
    words: tuple[str, ...] = ()
    """The command of every container."""


def cloud_name(run_id: str, most: int) -> str:
    """A name that every cloud takes: lower case, digits and dashes, beginning with a letter.
    What makes it unique is at its end.
    """
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in run_id.lower())
    plain = plain if plain[:1].isalpha() else f"u-{plain}"
    head, _, tail = plain.rpartition("-")
    return f"{head[: most - len(tail) - 1].rstrip('-')}-{tail}" if len(plain) > most else plain


def of(
    job: Job,
    run_id: str,
    settings: CloudSettings,
    *,
    launcher_sha256: str,
    digest: str,
    most_name: int = 63,
    is_one_directory: bool = False,
) -> CloudLayout:
    """``is_one_directory``: the cloud brings one directory only, so that all is uploaded into the run's."""
    name = cloud_name(run_id, most_name)
    run_key = run_key_of(settings, name)
    home = settings.directory
    run_path = f"{home}/run"
    launcher_path = run_path if is_one_directory else f"{home}/launcher"
    files_path = run_path if is_one_directory else f"{home}/files"
    launcher_key = run_key if is_one_directory else f"{settings.prefix}launchers/{launcher_sha256}/"
    files_key = run_key if is_one_directory else f"{settings.prefix}files/{digest}/"
    mounts = [CloudMount(name="umiak_run", key=run_key, path=run_path)]
    if not is_one_directory:
        mounts.append(CloudMount(name="umiak_launcher", key=launcher_key, path=launcher_path))
        mounts += [CloudMount(name="umiak_files", key=files_key, path=files_path)] if digest else []
    work = f"{home}/work"
    data, inputs, outputs = _data(job, settings, work) if not is_one_directory else ((), job.inputs, job.outputs)
    module = "umiak.submit.payload.cloud_start"
    words = (settings.python, f"{launcher_path}/{LAUNCHER}", "-m", module, f"{run_path}/{START}")
    objects = [
        (f"{run_key}{START}", _start(job, settings)),
        (f"{run_key}{BOOT}", _BOOT.format(words=_python_list(words))),
    ]
    archive = f"{files_path}/{ARCHIVE}"
    traits = PlaceTraits(
        directory=work,
        tee="all",  # the cloud keeps what the container prints, and nothing else
        files=SentFiles(digest=digest, store=f"{home}/unpacked", archive=archive) if digest else None,
        inputs=inputs,
        outputs=outputs,
        secrets_file=f"{home}/private/{SECRETS}",
    )
    for role in job.roles:
        plan = node_plan.of(job, role, run_id, traits)
        objects.append((f"{run_key}{plan_name(role)}", node_plan.as_text(plan)))
    return CloudLayout(
        run_id=run_id,
        name=name,
        launcher_key=f"{launcher_key}{LAUNCHER}",
        launcher_sha256=launcher_sha256,
        files_key=f"{files_key}{ARCHIVE}" if digest else "",
        digest=digest,
        run_key=run_key,
        objects=tuple(objects),
        secrets_key=f"{run_key}{SECRETS}",
        mounts=(*mounts, *data),
        words=(*_limit(job), *words),
    )


def run_key_of(settings: CloudSettings, name: str) -> str:
    """The directory of a run, by the name that its job has in the cloud."""
    return f"{settings.prefix}runs/{name}/"


def plan_name(role: RoleSpec) -> str:
    """The file of a role's plan."""
    return f"node-{role.role.value}.json"


def _start(job: Job, settings: CloudSettings) -> str:
    roles = tuple(RolePlan(role=each.role, nodes=each.nodes.most, plan=plan_name(each)) for each in job.roles)
    private = f"{settings.directory}/private/{SECRETS}"
    return cloud_plan.as_text(CloudStart(roles=roles, secrets=SECRETS, private=private))


def _data(
    job: Job, settings: CloudSettings, work: str
) -> tuple[tuple[CloudMount, ...], tuple[Transfer, ...], tuple[Transfer, ...]]:
    """Data in the cloud's own store is brought by the cloud,
    which needs no keys on the nodes; the rest by the nodes.
    """
    mounts: list[CloudMount] = []
    left: dict[bool, list[Transfer]] = {False: [], True: []}
    for is_written, transfers in ((False, job.inputs), (True, job.outputs)):
        for each in transfers:
            scheme, _, rest = each.url.partition("://")
            bucket, _, key = rest.partition("/")
            # A file, and a folder for each node, are nothing that a cloud can mount.
            if scheme != settings.scheme or node_plan.RANK in each.url or not _is_folder(key, is_written=is_written):
                left[is_written].append(each)
                continue
            name = f"umiak_{'out' if is_written else 'in'}_{len(mounts)}"
            key = f"{key.rstrip('/')}/" if key else ""
            mounts.append(
                CloudMount(name=name, key=key, path=f"{work}/{each.path}", is_written=is_written, bucket=bucket)
            )
    return tuple(mounts), tuple(left[False]), tuple(left[True])


def _is_folder(key: str, *, is_written: bool) -> bool:
    """A name with a slash at its end is a folder; one without may be a file, unless it is where results go."""
    return is_written or key.endswith("/") or not key


def _limit(job: Job) -> tuple[str, ...]:
    return ("timeout", "--kill-after=30", str(job.time_limit_s)) if job.time_limit_s else ()


def _python_list(words: tuple[str, ...]) -> str:
    """The program's own Python instead of the first word: boot files are run by the one of the image."""
    return "[sys.executable, " + ", ".join(map(repr, words[1:])) + "]"

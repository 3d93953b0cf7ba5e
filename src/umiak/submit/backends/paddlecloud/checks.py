"""What keeps a job from running on PaddleCloud. A decider.

problems(folder), missing(settings, ...), warnings(folder)
"""

from __future__ import annotations

from types import MappingProxyType

from umiak.core.cluster import Role
from umiak.core.problem import Problem
from umiak.submit.backends.paddlecloud import rendering
from umiak.submit.backends.paddlecloud.settings import AK, SK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umiak.submit.backends.paddlecloud.rendering import Folder
    from umiak.submit.backends.paddlecloud.settings import PaddleCloudSettings


def problems(folder: Folder, environ: Mapping[str, str] = MappingProxyType({})) -> list[Problem]:
    """What is wrong with job and settings. ``environ`` has the job's secrets."""
    problems = [*_shape(folder), *_bad_keys(folder.settings), *_texts(folder, environ)]
    job, settings = folder.job, folder.settings
    if settings.submit.start_cmd and not settings.submit.files:
        hint = "write `files: ./*.py ./*.yaml`"
        problems.append(
            _problem("UM-SUBMIT-225", "submit: start_cmd without files: nothing would be uploaded", hint=hint)
        )
    if folder.is_flat and (job.inputs or job.outputs):
        hint = "say train_data_path and output_path in the place's settings, or leave `files` out of them"
        problems.append(
            _problem("UM-SUBMIT-225", "inputs and outputs of the job, and files in the place's settings", hint=hint)
        )
    return problems


def missing(settings: PaddleCloudSettings, *, has_client: bool, has_own_keys: bool) -> list[Problem]:
    """What this machine lacks. ``has_own_keys``: whether the client has keys that its user gave it."""
    problems = []
    secrets = [name for name in (AK, SK) if settings.secrets.get(name)]
    if len(secrets) == 1 or (not secrets and not has_own_keys):
        names = " and ".join([name for name in (AK, SK) if name not in secrets])
        hint = "export PADDLECLOUD_AK and PADDLECLOUD_SK, or give them to the client: `paddlecloud config`"
        problems.append(_problem("UM-SUBMIT-222", f"submit: {names}: not said, and the client has none", hint=hint))
    if not has_client:
        problems.append(
            Problem(
                code="UM-SUBMIT-227",
                what="the client is not installed here: paddlecloud",
                why="PaddleCloud is reached through it alone, and it is not on PATH",
                hint="install PaddleCloud-Cli as the platform's manual says, then `paddlecloud job -h`",
            )
        )
    return problems


def warnings(folder: Folder) -> list[Problem]:
    """What is probably not meant."""
    version = folder.settings.config.paddle_version
    if version and not rendering.is_usable(version):
        oldest = ".".join(map(str, rendering.OLDEST_PADDLE))
        return [
            Problem(
                code="UM-SUBMIT-236",
                what=f"config: paddle_version: {version} is not installed on the nodes: the one that they have is kept",
                why=f"umiak trains with PaddlePaddle {oldest} or newer",
                hint="write the version that you train with here, as in `paddle_version: 3.3.1`",
            )
        ]
    return []


def _shape(folder: Folder) -> Iterator[Problem]:
    job, settings = folder.job, folder.settings
    server, trainer = job.role(Role.SERVER), job.role(Role.TRAINER)
    if job.role(Role.HETER) is not None or trainer is None:
        yield _problem("UM-SUBMIT-224", "PaddleCloud has no heter workers", hint="use servers and trainers")
    if job.nodes.is_elastic:
        hint = "write `nodes:` as one number"
        yield _problem("UM-SUBMIT-224", f"PaddleCloud has no elastic jobs: {job.nodes} nodes", hint=hint)
    if any(
        job.command_of(each) != job.command_of(job.roles[0])
        or job.environment_of(each) != job.environment_of(job.roles[0])
        for each in job.roles
    ):
        hint = "write `command` and `env` in the job, not in its roles"
        yield _problem("UM-SUBMIT-224", "roles with commands or variables of their own", hint=hint)
    if settings.is_mpi:
        if server is None:
            what, hint = "collective training on an mpi cluster", "use servers (fleet_mode: ps), or cluster_type: k8s"
            yield _problem("UM-SUBMIT-224", what, hint=hint)
        elif trainer is not None and server.nodes != trainer.nodes:
            what = f"{server.nodes} servers and {trainer.nodes} trainers on an mpi cluster"
            yield _problem("UM-SUBMIT-224", what, hint="each of its nodes has one of both: ask for as many")
        if folder.is_on_gpus:
            yield _problem("UM-SUBMIT-224", "GPUs on an mpi cluster", hint="use device: cpu, or cluster_type: k8s")
    elif server is not None and folder.is_on_gpus:
        yield _problem("UM-SUBMIT-224", "parameter servers with GPUs on a k8s cluster", hint="use device: cpu")
    elif server is None and not folder.is_on_gpus:
        hint = "ask for devices (device: gpu), or use servers (fleet_mode: ps)"
        yield _problem("UM-SUBMIT-224", "collective training without GPUs on a k8s cluster", hint=hint)


def _bad_keys(settings: PaddleCloudSettings) -> list[Problem]:
    # What it is stays untold: a secret with a blank too many is still a secret.
    return [
        _problem(
            "UM-SUBMIT-223",
            f"submit: {name}: not a key: it has other signs than letters and digits",
            hint="copy it again",
        )
        for name in (AK, SK)
        if settings.secrets.get(name) and not (settings.secrets[name].isascii() and settings.secrets[name].isalnum())
    ]


def _texts(folder: Folder, environ: Mapping[str, str]) -> list[Problem]:
    """What a line of config.ini can't hold."""
    settings = folder.settings
    pairs = [*rendering.variables(folder), *settings.config.paths(), ("fs_name", settings.config.fs_name)]
    wrong = [name for name, text in pairs if not rendering.is_writable(text)]
    secrets = {**settings.secrets, **{name: environ.get(name, "") for name in folder.job.secrets}}
    wrong += [name for name, text in secrets.items() if not rendering.is_writable(text)]
    hint = "config.ini has one line for it: use no ends of lines, and no single quotes beside other signs of a shell"
    return [
        _problem("UM-SUBMIT-230", f"can't be written to config.ini: the value of {name}", hint=hint) for name in wrong
    ]


def _problem(code: str, what: str, *, hint: str) -> Problem:
    return Problem(code=code, what=what, hint=hint)

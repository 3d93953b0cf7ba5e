"""The submission folder as text: before_hook.sh, config.ini, job.sh and end_hook.sh. A decider.

    folder = Folder(job=job, settings=settings, run_id="ctr-3f2a9c", path="/home/me/ctr-3f2a9c", client_home="...", files=(...))
    bundle_of(folder)                       without secrets: what `--dry_run` shows
    config_ini(folder, secrets)             with them: written at the last moment, for its owner alone

The four files keep the names and variables that PaddleRec gave them,
so that people can read and edit them; every value is quoted.
"""

from __future__ import annotations

import shlex

from umiak.contracts.paddle import PADDLEREC_ROLE
from umiak.contracts.secrets import HIDDEN
from umiak.contracts.start import TOKEN
from umiak.core.bundle import PRIVATE, Bundle, BundleFile
from umiak.core.cluster import Role
from umiak.core.value import replace, value
from umiak.submit.backends.paddlecloud.settings import FS_UGI
from umiak.submit.payload import node_plan
from umiak.submit.payload.node_plan import PlaceTraits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job
    from umiak.submit.backend import Secrets
    from umiak.submit.backends.paddlecloud.settings import PaddleCloudSettings

BEFORE, CONFIG, END, JOB = "before_hook.sh", "config.ini", "end_hook.sh", "job.sh"
GENERATED = (BEFORE, CONFIG, END, JOB)
NODE_PLAN, ARCHIVE, LAUNCHER = "node.json", "files.tar.gz", "umiak-launcher.pyz"
TRAITS = PlaceTraits(directory=".", tee="all", sets_variables=False)
"""The platform keeps the launcher's own output, and nothing else;
variables come by config.ini, where people edit them.
"""
CPU_NUM = "CPU_NUM"
TRAIN = ("-m", "umiak", "train")
MOUNTED_AT = "/root/paddlejob/workspace/env_run/afs/"
"""Where the platform mounts: ./afs of the working directory."""
CUSTOM = "paddle-fluid-custom"
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:;/@%+=#&*()[]{}<>?|~^")


@value
class Folder:
    """Everything that a submission folder is made from."""

    job: Job
    settings: PaddleCloudSettings
    run_id: str
    path: str
    """Absolute."""
    client_home: str
    """Home of the client, with its keys; empty: the person's own."""
    files: tuple[str, ...]
    """Names of the user's files in it."""
    node_plan: str = ""
    """Text of the plan of a node; empty: files are uploaded one by one, and nodes have umiak."""

    @property
    def is_flat(self) -> bool:
        return not self.node_plan

    @property
    def is_on_gpus(self) -> bool:
        return any(role.resource.devices for role in self.job.roles)


def bundle_of(folder: Folder) -> Bundle:
    """What is written and run. User's files are named only."""
    path = folder.path
    files = [
        BundleFile(path=f"{path}/{BEFORE}", text=before_hook(folder)),
        BundleFile(path=f"{path}/{CONFIG}", text=config_ini(folder, None), mode=PRIVATE),
        BundleFile(path=f"{path}/{JOB}", text=job_sh(folder), is_on_nodes=False),
        BundleFile(path=f"{path}/{END}", text=END_HOOK),
    ]
    if folder.node_plan:
        files.append(BundleFile(path=f"{path}/{NODE_PLAN}", text=folder.node_plan))
    names = "".join(f"  {name}\n" for name in folder.files)
    requests = [f"files copied to {path}:\n{names}"]
    if folder.client_home:
        home = f"{folder.client_home}/.paddlecli/config, mode {PRIVATE:o}"
        requests.append(f"file {home}: ak and sk for the client, not shown")
    return Bundle(files=tuple(files), requests=tuple(requests), commands=(("sh", f"{path}/{JOB}"),))


def node_plan_text(job: Job, run_id: str, digest: str) -> str:
    """What every node does. ``digest``: the content hash of the files that are sent; empty: none are."""
    files = node_plan.SentFiles(digest=digest, store="files", archive=ARCHIVE) if digest else None
    plan = node_plan.of(job, job.main_role, run_id, replace(TRAITS, files=files))
    return node_plan.as_text(plan)


def start_cmd(folder: Folder) -> str:
    """What the platform runs on every node."""
    job, settings = folder.job, folder.settings
    if settings.submit.start_cmd and folder.is_flat:
        return settings.submit.start_cmd
    if not folder.is_flat:
        return f"python {LAUNCHER} -m umiak.submit.payload.node_start {NODE_PLAN}"
    if job.command[:3] == TRAIN:
        return shlex.join(("python", *job.command))
    plan = node_plan.of(job, job.main_role, folder.run_id, TRAITS)
    return shlex.join(("python", "-m", "umiak", "launch", *plan.launch))


def needs_umiak(folder: Folder) -> bool:
    """Whether nodes must have umiak installed: else its launcher comes along as one file."""
    words = start_cmd(folder).split()
    return folder.is_flat and any(
        word in ("umiak", "paddlerec.run", "umiak.cli.main", "umiak.launch") for word in words
    )


# ---- config.ini


def config_ini(folder: Folder, secrets: Secrets | None) -> str:
    """What the platform is told, and every variable of the nodes. Without secrets, these are covered."""
    lines = [
        "# Variables of the nodes, and what the platform does for them. Made by umiak; edit it and run `sh job.sh`."
    ]

    def secret(name: str) -> tuple[str, str]:
        return name, HIDDEN if secrets is None else secrets.get(name, "")

    pairs = [*_platform(folder), secret(FS_UGI), *variables(folder), *map(secret, (TOKEN, *folder.job.secrets))]
    return "\n".join([*lines, *[f"{name}={quoted(text)}" for name, text in pairs]]) + "\n"


def variables(folder: Folder) -> list[tuple[str, str]]:
    """The variables of every node that are not secret."""
    job, settings = folder.job, folder.settings
    own = dict(job.environment_of(job.roles[0]))
    threads = own.pop(CPU_NUM, "1")
    pairs = [
        (PADDLEREC_ROLE, "WORKER"),
        ("PADDLEREC_CLUSTER_TYPE", settings.cluster.value.upper()),
        ("use_python3", str(int(settings.config.use_python3))),
        (CPU_NUM, threads),
        ("GLOG_v", "0"),
    ]
    pairs += [(name, text or threads) for name, text in settings.flags.texts()]
    return [*pairs, *own.items()]


def _platform(folder: Folder) -> list[tuple[str, str]]:
    settings = folder.settings
    if settings.is_mpi:
        pairs = [("storage_type", "hdfs"), ("force_reuse_output_path", "True"), ("fs_name", settings.config.fs_name)]
        pairs.append(("FLAGS_rpc_deadline", "300000"))
        names = ("train_data_path", "test_data_path", "output_path", "thirdparty_path")
        return [*pairs, *[(name, getattr(settings.config, name)) for name in names]]
    return [
        ("fs_name", settings.config.fs_name),
        ("output_path", settings.config.output_path),
        ("mount_afs", "true"),
        ("AFS_REMOTE_MOUNT_POINT", settings.config.afs_remote_mount_point),
        ("afs_local_mount_point", MOUNTED_AT),
    ]


def quoted(text: str) -> str:
    """In double quotes, as the platform's own examples are;
    in single ones where a shell would take it for more than text.
    """
    return f'"{text}"' if _SAFE.issuperset(text) else f"'{text}'"


def is_writable(text: str) -> bool:
    """Whether a line of config.ini can hold it."""
    return _SAFE.issuperset(text) or ("'" not in text and text.isprintable())


# ---- job.sh


def job_sh(folder: Folder) -> str:
    """The call of the client, with every value in a variable of its own."""
    job, settings = folder.job, folder.settings
    names: list[tuple[str, str]] = [
        ("job_name", folder.run_id),
        ("group_name", settings.submit.group),
        ("job_version", CUSTOM if _image(folder) else settings.submit.job_version),
        ("start_cmd", start_cmd(folder)),
        ("wall_time", _wall_time(job.time_limit_s) or settings.submit.wall_time),
        ("priority", settings.submit.priority),
    ]
    words = [("--job-name", "job_name"), ("--group-name", "group_name"), ("--job-version", "job_version")]
    words += [("--start-cmd", "start_cmd"), ("--job-conf", f"={CONFIG}")]
    sizes, more = _shape(folder)
    names += sizes
    words += more
    if settings.submit.permission == "group":
        words.append(("--permission", "=group"))
    if _image(folder):
        names.append(("image_addr", _image(folder)))
        words.append(("--image-addr", "image_addr"))
    call = [f"    {flag} {_argument(name)} \\" for flag, name in words]
    home = shlex.quote(folder.client_home) if folder.client_home else '"$HOME"'
    return "\n".join(
        [
            "#!/bin/sh",
            "# Submits this folder to PaddleCloud. Made by umiak; edit it and run `sh job.sh` to submit again.",
            "set -eu",
            'cd "$(dirname "$0")"',
            "",
            *[f"{name}={shlex.quote(text)}" for name, text in names],
            "# ak and sk are read by the client from .paddlecli/config in this directory, and stand in no argument.",
            f"client_home={home}",
            "",
            "# Everything in this folder goes to the nodes, but this file; config.ini is sent as the job's configuration.",
            "set --",
            "for file in *; do",
            '    case "$file" in',
            f"        {JOB} | {CONFIG}) ;;",
            '        *) set -- "$@" "$file" ;;',
            "    esac",
            "done",
            "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY",
            "# A client that was installed with `pip install --user` is found by its own home.",
            'export PYTHONUSERBASE="${PYTHONUSERBASE:-$HOME/.local}"',
            'HOME="$client_home"',
            "export HOME",
            "exec paddlecloud job train \\",
            *call,
            '    --files "$@" \\',
            "    --json",
            "",
        ]
    )


def _shape(folder: Folder) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Sizes, and flags: of mpi, of k8s with servers, or of k8s collective."""
    job, settings = folder.job, folder.settings
    trainer = job.main_role
    server = job.role(Role.SERVER)
    trainers = str(trainer.nodes.most)
    if settings.is_mpi:
        return [("mpi_nodes", trainers)], [
            ("--mpi-priority", "priority"),
            ("--mpi-wall-time", "wall_time"),
            ("--mpi-nodes", "mpi_nodes"),
            ("--is-standalone", "=0"),
        ]
    cpus = max(1, round(trainer.resource.cpus))
    sizes = [("k8s_trainers", trainers), ("k8s_cpu_cores", str(cpus))]
    flags = [("--k8s-priority", "priority"), ("--wall-time", "wall_time")]
    flags += [("--k8s-trainers", "k8s_trainers"), ("--k8s-cpu-cores", "k8s_cpu_cores")]
    if server is not None:
        sizes += [("k8s_ps_num", str(server.nodes.most)), ("k8s_ps_cores", str(max(1, round(server.resource.cpus))))]
        flags += [("--k8s-ps-num", "k8s_ps_num"), ("--k8s-ps-cores", "k8s_ps_cores")]
        return sizes, [*flags, ("--is-standalone", "=0"), ("--distribute-job-type", "=PSERVER")]
    sizes.append(("k8s_gpu_cards", str(trainer.resource.devices)))
    flags.append(("--k8s-gpu-cards", "k8s_gpu_cards"))
    if trainer.nodes.most == 1:
        return sizes, [*flags, ("--is-standalone", "=1")]
    return sizes, [*flags, ("--is-standalone", "=0"), ("--distribute-job-type", "=NCCL2")]


def _argument(name: str) -> str:
    return shlex.quote(name[1:]) if name.startswith("=") else f'"${name}"'


def _image(folder: Folder) -> str:
    return folder.job.image or folder.settings.submit.image


def _wall_time(seconds: int | None) -> str:
    return "" if seconds is None else f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


# ---- hooks

_HEAD = """\
#!/bin/sh
# Runs on every node before the job. Made by umiak; edit it and run `sh job.sh` to submit again.
set -eu
echo "Run before_hook.sh ..."

if ! python -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "error: umiak needs Python 3.10 or newer as python, this is: $(python --version 2>&1)" >&2
    exit 3
fi
"""

_UMIAK = """
# umiak is on no package index: its wheels are uploaded with the job, or come with thirdparty_path or afs_remote_mount_point.
if ! python -c 'import umiak' 2>/dev/null; then
    for wheel in ./umiak-*.whl ./thirdparty/umiak-*.whl ./afs/umiak-*.whl; do
        if [ -e "$wheel" ]; then
            python -m pip install "$(dirname "$wheel")"/umiak_native-*.whl "$wheel[train]"
            break
        fi
    done
fi
if ! python -c 'import umiak'; then
    echo "error: umiak is not installed on this node; put its wheels into ./, ./thirdparty or ./afs" >&2
    exit 3
fi
"""

_PADDLE = """
package={package}
version={version}
if ! python -c 'import importlib.metadata as m, sys; sys.exit(m.version(sys.argv[1]) != sys.argv[2])' "$package" "$version" 2>/dev/null
then
    python -m pip install "$package==$version"
fi
"""

_TAIL = """
echo "End before_hook.sh ..."
"""

END_HOOK = """\
#!/bin/sh
# Runs on every node after the job. Made by umiak; edit it and run `sh job.sh` to submit again.
echo "Run end_hook.sh ..."
"""


def before_hook(folder: Folder) -> str:
    """What a node needs before the job begins."""
    parts = [_HEAD]
    if needs_umiak(folder):
        parts.append(_UMIAK)
    if folder.settings.config.paddle_version and is_usable(folder.settings.config.paddle_version):
        package = "paddlepaddle-gpu" if folder.is_on_gpus else "paddlepaddle"
        parts.append(_PADDLE.format(package=package, version=shlex.quote(folder.settings.config.paddle_version)))
    return "".join([*parts, _TAIL])


OLDEST_PADDLE = (2, 6)


def is_usable(version: str) -> bool:
    """Whether umiak can train with this PaddlePaddle."""
    numbers = [int(part) if part.isdecimal() else 0 for part in version.split(".")[:2]]
    return tuple(numbers) >= OLDEST_PADDLE


def printed(folder: Folder) -> list[str]:
    """What PaddleRec printed while it made the folder."""
    kind = folder.settings.cluster.value
    return [
        f"The task submission folder is generated at {folder.path}",
        "before_submit",
        f"gen {'gpu' if folder.is_on_gpus else 'cpu'} {BEFORE}",
        f"gen {kind}_{CONFIG}",
        f"gen {kind}_{JOB}",
        f"gen {END}",
    ]

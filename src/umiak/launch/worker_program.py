"""What workers are started with: a command that can be started, its environment, its log directory. An adapter.

worker_program.check(options, environ)                        UmiakError if there is no such script
worker_program.program(options, plan, environ, output, ...)   what `supervisor` starts, once for each seat
"""

from __future__ import annotations

import os

from umiak import contracts
from umiak.adapters import own_modules
from umiak.core.devices import DeviceKind
from umiak.core.names import is_digits
from umiak.core.problem import UmiakError
from umiak.core.value import from_fields
from umiak.launch import supervisor
from umiak.launch.events import Discovery
from umiak.launch.options import ProgramStart
from umiak.launch.reports import logfiles
from umiak.launch.reports.logfiles import Access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.devices import Devices
    from umiak.launch.options import LaunchOptions
    from umiak.launch.plan import LaunchPlan
    from umiak.launch.reports.output import LauncherOutput


def check(options: LaunchOptions, environ: Mapping[str, str]) -> None:
    """What Python, or the kernel, would refuse on every node is refused before anything starts."""
    script = options.program[0] if options.program else ""
    is_script = options.runner is ProgramStart.PYTHON or script.endswith((".py", ".pyxes"))
    if options.is_module or not script:
        return
    if os.path.isdir(script) and (is_script or not _is_on_path(script, environ)):
        inside = os.path.join(script, "train.py")
        raise UmiakError.of(
            "UM-LAUNCH-205",
            f"a directory, not a script: {script}",
            hint=f"name the script in it, as in `umiak launch {inside}`, or use -m for a package",
        )
    if is_script and not os.path.isfile(script):
        raise UmiakError.of(
            "UM-LAUNCH-201",
            f"no such script: {script}",
            why=f"the working directory is {os.getcwd()}",
            hint="name it relative to the working directory, or use -m for a module",
        )
    if is_script and not os.access(script, os.R_OK):
        raise UmiakError.of(
            "UM-LAUNCH-205",
            f"the script can't be read: {script}",
            why="this user may not read it",
            hint=f"`ls -l {script}` shows who may",
        )


def program(
    options: LaunchOptions,
    plan: LaunchPlan,
    environ: Mapping[str, str],
    output: LauncherOutput,
    *,
    command: tuple[str, ...] | None,
    log_dir: str,
    access: Access,
    run: str,
    devices: Devices | None,
    token: bytes | None,
) -> supervisor.Program:
    """``command``: of a check, whose workers are umiak's own; None: what was asked for."""
    is_job = command is None
    return from_fields(
        supervisor.Program,
        options,
        command=command or supervisor.command_for(options.program, is_module=options.is_module, runner=options.runner),
        environ=_environ(options, environ, output),
        setting=from_fields(
            contracts.WorkerSetting,
            options,
            mode=plan.terms.mode,
            log_dir=log_dir,
            max_restarts=options.max_restart,
            devices=devices,
        ),
        log_dir=log_dir,
        log_access=access,
        run=run,
        gpu_log=options.enable_gpu_log and devices is not None and devices.kind is DeviceKind.GPU,
        token=_token(plan, token) if is_job else None,
        fleet_from=_fleet_from(options, plan, output) if is_job else None,
    )


def _environ(options: LaunchOptions, environ: Mapping[str, str], output: LauncherOutput) -> dict[str, str]:
    """What workers inherit of this launcher's environment, before their own variables are laid over it."""
    hidden = contracts.proxies_in(environ)
    if not hidden or options.keep_proxy:
        return dict(environ)
    names = " and ".join(f"{name} (as {name}_original)" for name in hidden)
    output.say(f"hidden from the workers: {names}; --keep_proxy leaves them")
    return contracts.without_proxies(environ)


def _token(plan: LaunchPlan, token: bytes | None) -> str | None:
    """What parameter servers and their trainers prove to one another:
    the job's token, or on one node one of its own.
    """
    if not plan.terms.mode.has_servers:
        return None
    if token is None and plan.discovery is Discovery.ALONE:
        token = os.urandom(16).hex().encode()
    return None if token is None else os.fsdecode(token)


def _fleet_from(options: LaunchOptions, plan: LaunchPlan, output: LauncherOutput) -> tuple[str, ...] | None:
    """Where workers find umiak for `paddle.fluid` and for their calls of fleet; None where these stay Paddle's."""
    if options.no_compat:
        return None
    if plan.terms.mode.has_servers:
        output.say(
            "parameter-server calls of paddle.distributed.fleet are umiak's in Python workers; --no_compat leaves them to Paddle"
        )
    return own_modules.directories()


# ---- the log directory


def log_access(options: LaunchOptions) -> Access:
    """Who may read log files. UmiakError if there is no such group, or this user is not in it."""
    mode, name = options.log_mode, options.log_group
    if name is None:
        return Access() if mode is None else Access(mode=mode)
    import grp

    try:
        group = int(name) if is_digits(name) and len(name) < 10 else grp.getgrnam(name).gr_gid
    except KeyError:
        hint = "`getent group` lists the groups of this machine"
        raise UmiakError.of("UM-LAUNCH-316", f"no such group: --log_group {name}", hint=hint) from None
    if os.geteuid() != 0 and group not in (os.getegid(), *os.getgroups()):
        raise UmiakError.of(
            "UM-LAUNCH-317",
            f"the log files can't be given to this group: {name}",
            why="the user who runs the launcher is not a member",
            hint="`id` lists the groups that are possible",
        )
    return Access(mode=0o640 if mode is None else mode, group=group)


def claim_log_dir(options: LaunchOptions, access: Access, *, own_name: str, run: str) -> logfiles.Claimed:
    """The log directory, or one below it, made and locked. UmiakError if it can't be written."""
    path = os.path.abspath(options.log_dir)
    try:
        return logfiles.claim(path, own_name=own_name, run=run, access=access)
    except OSError as error:
        file = _file_in_the_way(path)
        raise UmiakError.refused(
            "UM-LAUNCH-202",
            f"the log directory can't be written: {path}"
            if file is None
            else f"expected a directory for logs, got a file: {file}",
            why=f"{error.filename}: {error.strerror}" if error.filename and file is None else error.strerror,
            hint="choose another with --log_dir",
        ) from None


def _file_in_the_way(path: str) -> str | None:
    """What is no directory on the way to a directory, or in its place."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return None if os.path.isdir(path) else path


def _is_on_path(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a program is found by this name alone: a directory called ``python`` hides no ``python``."""
    import shutil

    return "/" not in name and shutil.which(name, path=environ.get("PATH", os.defpath)) is not None

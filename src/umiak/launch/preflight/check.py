"""The launcher's side of `--check`: what is different from an ordinary launch, and the outcome at the end. An adapter.

A check never restarts anything, shows no worker's output and has a job id of its own,
so that it neither joins a running job nor lets in a node that was started without `--check`.
"""

from __future__ import annotations

import os
import select

from umiak.adapters import own_modules
from umiak.core.cluster import Role
from umiak.core.problem import Exit, Problem
from umiak.core.value import replace
from umiak.launch.options import Tee
from umiak.launch.preflight.task import CheckTask, open_results, read_result, task_argument
from umiak.launch.reports.output import LauncherOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.devices import Devices
    from umiak.launch import events
    from umiak.launch.options import LaunchOptions
    from umiak.launch.plan import LaunchPlan
    from umiak.launch.protocol import Offer

JOB_SUFFIX = ".check"
PATIENCE_S = 30.0
"""How long the collector waits for reports; a shorter --join_timeout holds here, too."""
SCRIPTS = (".py", ".pyxes", ".sh", ".pyz")
INTERPRETERS = ("python", "bash", "sh")
_WRITE_BYTES = 4096


class CheckOutput(LauncherOutput):
    """Does not say that the job is done: whether the check went well is known only after the workers' end."""

    def goodbye(self, end: events.Exit) -> None:
        if end.status != 0:
            super().goodbye(end)


class Check:
    """One check, from the launcher's point of view."""

    def __init__(self, options: LaunchOptions) -> None:
        self._asked = options
        self._results = open_results()
        self.options = replace(
            options, tee=Tee.NONE, hang_timeout_s=None, max_restart=0, restart_wanted=False, elastic_level=-1
        )
        """What the launch works with instead."""

    def plan(self, plan: LaunchPlan) -> LaunchPlan:
        """The same plan for a job of the check's own."""
        return replace(plan, terms=replace(plan.terms, job_id=plan.terms.job_id + JOB_SUFFIX))

    def command(self, offer: Offer, found: Devices | None, *, log_dir: str, has_token: bool) -> tuple[str, ...]:
        """What every worker runs."""
        options = self._asked
        role = Role.SERVER if offer.servers else Role.TRAINER if offer.trainers else Role.HETER
        moves = options.elastic or options.restart_wanted
        task = CheckTask(
            result_fd=self._results,
            first=f"{role.value}.{offer.first_local_rank}",
            patience_s=min(PATIENCE_S, options.join_timeout_s),
            # Only a job that may lose its master goes on with other launchers' ports.
            link_port=offer.link_port if moves else 0,
            token=has_token,
            device_kind=found.kind.value if found else "",
            device_count=len(found.used) if found else 0,
            program=program_to_compare(options),
            is_module=options.is_module,
            log_dir=log_dir,
            as_json=options.as_json,
        )
        return (*own_modules.command("umiak.launch.preflight"), task_argument(task))

    def conclude(self, status: int, output: LauncherOutput) -> int:
        """Say how it went; the exit status. ``status`` is how the check ended as a job."""
        if status != 0:
            return status
        result = read_result(self._results)
        if result is None:
            problem = Problem(code="UM-CHECK-003", what="this node was not examined: the check ended without it")
            output.problems([problem])
            return Exit.REFUSED
        _show(result.shown)
        if result.note:
            output.say(result.note)
        if result.problem:
            output.problems([result.problem])
            return Exit.REFUSED
        return Exit.DONE


def program_to_compare(options: LaunchOptions) -> str:
    """The module or the script that a worker runs, also behind an interpreter's name; empty: neither."""
    words = options.program
    if options.is_module:
        return words[0] if words else ""
    if words and os.path.basename(words[0]).startswith(INTERPRETERS):
        words = tuple(word for word in words[1:] if not word.startswith("-"))
    return words[0] if words and words[0].endswith(SCRIPTS) else ""


def _show(text: str) -> None:
    """To standard output, waiting for it: a long table is data, and all of it is wanted."""
    data = text.encode(errors="backslashreplace")
    try:
        while data:
            select.select([], [1], [])  # the shell may have left it non-blocking
            data = data[os.write(1, data[:_WRITE_BYTES]) :]
    except OSError:
        pass  # the reader has gone away

"""The directory of a run on one machine: what lies where, written and read back. An adapter.

    plan.json          what is started; written by the client
    supervisor.json    which process supervises it; written once, so that no two do
    launchers/NAME     which process launcher NAME is; written by that process before it is the launcher
    cancel.json        that somebody wants its end
    end.json           how it ended
    reserve            room for that, on a disk that the job may fill
    log/NAME/          what launcher NAME and its workers print, and in state.json how it is

    token.json         the run's own token, of a job on many machines, until the run is over

The directory and its files are for their owner alone. Secrets never lie here: the supervisor is given them through a
pipe. The token of a job on many machines does, so that a submission that broke off half-way can be completed with the
same one.
"""

from __future__ import annotations

import os
import time

from umiak.adapters import identity, private_files
from umiak.adapters.identity import ProcessIdentity
from umiak.core import light_json
from umiak.core.value import fields, value
from umiak.submit.node.plan import RunPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.node.state import RunEnd, RunFacts

PLAN, SUPERVISOR, CANCEL, END, TOKEN = (f"{name}.json" for name in ("plan", "supervisor", "cancel", "end", "token"))
LAUNCHERS = "launchers"
RESERVE, RESERVE_BYTES = "reserve", 8192
SUPERVISOR_LOG = "supervisor.log"
OUTPUT = "launcher.log"
ARRIVED = "arrived"
"""The last word of what a supervisor is given: a client that was killed before it has started nothing."""
STARTED, ALREADY = "started", "already"
"""A supervisor's answers."""
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)


@value
class StartedLaunchers:
    """The processes of a run's launchers."""

    started_s: float
    processes: Mapping[str, ProcessIdentity]


class RunFiles:
    """One run's directory."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.logs = os.path.join(path, "log")

    @property
    def exists(self) -> bool:
        return os.path.exists(self._file(PLAN))

    def plan(self) -> RunPlan:
        """OSError or ValueError if it can't be read."""
        with open(self._file(PLAN), "rb") as file:
            return RunPlan.from_plain(light_json.loads(file.read()))

    def log_directory(self, launcher: str) -> str:
        return os.path.join(self.logs, launcher)

    def claim(self) -> bool:
        """This process supervises the run; False if another one does, or did."""
        own = identity.of(os.getpid())
        assert own is not None
        return private_files.write_once(
            self._file(SUPERVISOR), light_json.dumps({**own.to_plain(), "host": os.uname().nodename})
        )

    def supervisor(self) -> ProcessIdentity | None:
        data = self._read(SUPERVISOR)
        return ProcessIdentity.from_plain(data) if data else None

    def host(self) -> str:
        """The machine that it runs on, or ran; empty if it was not started."""
        data = self._read(SUPERVISOR)
        return str(data["host"]) if data else ""

    def prepare_launchers(self) -> None:
        """Make what `write_launcher` needs."""
        private_files.make_directory(self._file(LAUNCHERS))

    def write_launcher(self, name: str, own: ProcessIdentity | None) -> None:
        """This process becomes the launcher of that name. Its number stays the same when it executes the program."""
        assert own is not None
        self._write(f"{LAUNCHERS}/{name}", {**own.to_plain(), "started_s": time.time()})

    def launchers(self) -> StartedLaunchers | None:
        """Those that were started, as far as it has come; None before the first."""
        try:
            names = sorted(name for name in os.listdir(self._file(LAUNCHERS)) if name[0] != ".")
        except FileNotFoundError:
            return None
        by_name = {name: each for name in names if (each := self._read(f"{LAUNCHERS}/{name}"))}
        if not by_name:
            return None
        return StartedLaunchers(
            started_s=min(float(each["started_s"]) for each in by_name.values()),
            processes={name: ProcessIdentity.from_plain(each) for name, each in by_name.items()},
        )

    def write_token(self, token: str) -> None:
        self._write(TOKEN, {"token": token})

    def token(self) -> str | None:
        data = self._read(TOKEN)
        return None if data is None else str(data["token"])

    def forget_token(self) -> None:
        """Once nobody can join the run any more."""
        private_files.remove(self._file(TOKEN))

    def ask_to_cancel(self, grace_s: float) -> None:
        """Also on a disk that the job has filled: half of the room that is kept for its end is enough for that."""
        try:
            self._write(CANCEL, {"grace_s": grace_s})
        except OSError:
            if not os.path.exists(self._file(RESERVE)):
                raise
            os.truncate(self._file(RESERVE), RESERVE_BYTES // 2)
            self._write(CANCEL, {"grace_s": grace_s})

    def cancel_grace_s(self) -> float | None:
        """How long a cancelled run may take to end; None if nobody has cancelled it."""
        data = self._read(CANCEL)
        return None if data is None else float(data["grace_s"])

    def reserve(self) -> None:
        """Keep room for `write_end` on a disk that the job may fill."""
        private_files.write(self._file(RESERVE), RESERVE_BYTES * "\0")

    def write_end(self, end: RunEnd) -> None:
        plain = {name: getattr(end, name) for name in fields(end)}
        private_files.remove(self._file(RESERVE))
        self._write(END, {**plain, "exit_codes": dict(end.exit_codes)})

    def end(self) -> RunEnd | None:
        from umiak.submit.node.state import RunEnd

        data = self._read(END)
        return None if data is None else RunEnd(**data)

    def facts(self, now_s: float) -> RunFacts:
        """What can be seen. The end is looked at again after the processes:
        it is written before the supervisor goes.
        """
        from umiak.adapters import report_file
        from umiak.submit.node.state import RunFacts

        end = self.end()
        supervisor = self.supervisor()
        is_supervised = supervisor is not None and identity.is_alive(supervisor)
        launchers = self.launchers()
        alive = {name for name, each in launchers.processes.items() if identity.is_alive(each)} if launchers else set()
        planned = self.plan().launchers
        is_complete = launchers is not None and len(launchers.processes) >= len(planned)
        reports = {each.name: report_file.read(self.log_directory(each.name)) for each in planned}
        return RunFacts(
            age_s=now_s - os.stat(self._file(PLAN)).st_mtime,
            is_claimed=supervisor is not None,
            is_supervised=is_supervised,
            is_other_boot=supervisor is not None and supervisor.boot != identity.boot(),
            started_s=launchers.started_s if launchers and is_complete else None,
            alive=frozenset(alive),
            is_cancelled=self.cancel_grace_s() is not None,
            end=end or self.end(),
            reports={name: each for name, each in reports.items() if each},
        )

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _write(self, name: str, data: JsonMapping) -> None:
        private_files.write(self._file(name), light_json.dumps(data))

    def _read(self, name: str) -> JsonObject | None:
        try:
            with open(self._file(name), "rb") as file:
                data: JsonObject = light_json.loads(file.read())
                return data
        except _UNREADABLE:
            return None

"""`fluid.DistributeTranspiler`: a program, by its trainer's number and the servers' addresses. A program.

    t = fluid.DistributeTranspiler(config)
    t.transpile(trainer_id, pservers="10.0.0.1:6174,10.0.0.2:6174", trainers=2)
    exe.run(t.get_pserver_program("10.0.0.1:6174"))          a server: returns when the job is over
    exe.run(t.get_trainer_program(), feed=...)               a trainer

The programs are those of 1.8 in their place, not in what they contain: the trainer's is the program itself, which learns on umiak's servers.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from umiak.fleet import roles
from umiak.fluid.distributed import collective, jobs
from umiak.fluid.distributed.strategies import TranspilerConfig
from umiak.fluid.record.current import default_main_program, default_startup_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import RecordedProgram
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram

COLLECTIVE = ("nccl2", "collective")


class ProgramTranspiler:
    """`DistributeTranspiler`."""

    def __init__(self, config: Any = None) -> None:
        self.config = config or TranspilerConfig()
        self._given: dict[str, Any] = {}
        self._programs: tuple[RecordedProgram, RecordedProgram] | None = None
        self._job: jobs.FluidJob | None = None

    def transpile(self, trainer_id: int, program: AnyProgram = None, pservers: str = "127.0.0.1:6174", trainers: int | str = 1, sync_mode: bool = True, startup_program: AnyProgram = None, current_endpoint: str = "127.0.0.1:6174") -> None:  # fmt: skip
        """Remember who is there; with mode nccl2 or collective, let the program average its gradients with the other trainers."""
        main, startup = program or default_main_program(), startup_program or default_startup_program()
        self._programs = main, startup
        if self.config.mode in COLLECTIVE:
            endpoints = _listed(trainers) if isinstance(trainers, str) else []
            collective.use_endpoints(int(trainer_id), endpoints, current_endpoint)
            collective.average(main, startup)
            return
        if self.config.mode != "pserver":
            what = f"DistributeTranspilerConfig.mode = {self.config.mode!r}"
            raise bad("UM-FLUID-001", what, "pserver, nccl2 or collective", where=user_line())
        if not sync_mode:
            self.config.sync_mode = False
        count = trainers if isinstance(trainers, int) else len(_listed(trainers))
        self._given = {"worker_num": count, "server_endpoints": _listed(pservers), "current_id": int(trainer_id)}

    # ---- servers

    def get_pserver_program(self, endpoint: str) -> RecordedProgram:
        """What serves when it is run."""
        servers = self._known()["server_endpoints"]
        if endpoint not in servers:
            what = f"get_pserver_program: {endpoint} is none of the servers {', '.join(servers)}"
            raise bad("UM-FLUID-001", what, "give one of transpile(pservers=)", where=user_line())
        program = RecordedProgram()
        program.runner = jobs.ServingRunner(self._begun(roles.SERVER, servers.index(endpoint)))
        return program

    def get_pserver_programs(self, endpoint: str) -> tuple[RecordedProgram, RecordedProgram]:
        """It, and what is run before: nothing."""
        program = self.get_pserver_program(endpoint)
        return program, self.get_startup_program(endpoint, program)

    def get_startup_program(self, endpoint: str, pserver_program: AnyProgram = None, startup_program: AnyProgram = None) -> RecordedProgram:  # fmt: skip
        """Nothing: the first trainer's parameters are the servers' first ones."""
        return RecordedProgram()

    # ---- trainers

    def get_trainer_program(self, wait_port: bool = True) -> RecordedProgram:
        """The program itself, which learns on the servers from now on."""
        if self._programs is None:
            raise bad("UM-FLUID-001", "transpile has not been called", "t.transpile(trainer_id, ...)", where=user_line())  # fmt: skip
        main, startup = self._programs
        if self.config.mode not in COLLECTIVE and main.runner is None:
            job = self._begun(roles.WORKER, self._known()["current_id"])
            job.begins_at_startup = True
            job.train(main, startup)
        return main

    def _known(self) -> dict[str, Any]:
        if not self._given:
            raise bad("UM-FLUID-001", "transpile has not been called", "t.transpile(trainer_id, ...)", where=user_line())  # fmt: skip
        return self._given

    def _begun(self, role: int, rank: int) -> jobs.FluidJob:
        if self._job is None:
            place = roles.of_arguments({**self._known(), "role": role, "current_id": rank}, os.environ)
            self._job = jobs.begin(place, self.config)
        return self._job


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def memory_optimize(input_program: AnyProgram, *_given: object, **_settings: object) -> None:
    """Nothing, as in 1.8 itself since 1.6."""
    warnings.warn("memory_optimize has no effect: memory is given back as soon as nothing needs it", stacklevel=2)


def release_memory(input_program: AnyProgram, *_given: object, **_settings: object) -> None:
    """Nothing, as in 1.8 itself since 1.6."""
    warnings.warn("release_memory has no effect: memory is given back as soon as nothing needs it", stacklevel=2)

"""`fluid.incubate.fleet.base.role_maker`: who this process is, as its environment or a program says. A program.

They answer what programs of 1.8 ask them; the place in the job itself is found by `umiak.fleet.roles` and `umiak.contracts.seat`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from umiak.contracts import seat as worker_seat
from umiak.core.cluster import Role
from umiak.fleet import roles
from umiak.fluid.distributed.telling import say
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line
from umiak.ps.environment import PsSeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.fleet.roles import FleetSeat


class FluidRole:
    """`role_maker.Role`."""

    WORKER, SERVER = roles.WORKER, roles.SERVER


class FluidRoleMaker:
    """What all of them answer."""

    is_collective = False

    def __init__(self) -> None:
        self._found: FleetSeat | None = None

    def _find(self) -> FleetSeat:
        raise NotImplementedError

    @property
    def place(self) -> FleetSeat:
        """Where this process stands in its job."""
        if self._found is None:
            self._found = self._find()
        return self._found

    def generate_role(self) -> None:
        """Find it out now, and not when it is asked first."""
        self.place  # noqa: B018 - it is found when it is asked

    def is_worker(self) -> bool:
        return not self.is_server()

    def is_server(self) -> bool:
        return self.place.role == roles.SERVER

    def is_first_worker(self) -> bool:
        return self.is_worker() and self.worker_index() == 0

    def worker_index(self) -> int:
        return self.place.seat.rank

    server_index = worker_index

    def role_id(self) -> int:
        return self.place.seat.rank

    def worker_num(self) -> int:
        return self.place.seat.world

    def server_num(self) -> int:
        return len(self.place.seat.servers)

    def get_trainer_endpoints(self) -> list[str]:
        return list(self.place.workers)

    def get_pserver_endpoints(self) -> list[str]:
        return list(self.place.seat.servers)


class CloudRoleMaker(FluidRoleMaker):
    """`PaddleCloudRoleMaker`: as the environment says, that of `umiak launch` or of another launcher."""

    def __init__(self, is_collective: bool = False) -> None:
        super().__init__()
        self.is_collective = is_collective

    def _find(self) -> FleetSeat:
        return collective_place() if self.is_collective else roles.of_environment(os.environ)


class GeneralRoleMaker(CloudRoleMaker):
    """The same; what it is told of meeting places has no effect, since trainers meet at the servers."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(is_collective=False)
        if settings:
            say(
                f"GeneralRoleMaker({', '.join(settings)}) has no effect: processes meet as the launcher says, and trainers at the servers"
            )


class HandmadeRoleMaker(FluidRoleMaker):
    """`UserDefinedRoleMaker`: as the program says."""

    def __init__(self, current_id: int = 0, role: int = FluidRole.WORKER, worker_num: int = 0, server_endpoints: Sequence[str] | None = None) -> None:  # fmt: skip
        super().__init__()
        self._given = {"current_id": current_id, "role": role, "worker_num": worker_num, "server_endpoints": server_endpoints}  # fmt: skip

    def _find(self) -> FleetSeat:
        return roles.of_arguments(self._given, os.environ)


class HandmadeCollectiveRoleMaker(FluidRoleMaker):
    """`UserDefinedCollectiveRoleMaker`: as the program says, without servers."""

    is_collective = True

    def __init__(self, current_id: int = 0, worker_endpoints: Sequence[str] | None = None) -> None:
        super().__init__()
        self._rank, self._endpoints = current_id, list(worker_endpoints or ())

    def _find(self) -> FleetSeat:
        if not self._endpoints or not 0 <= self._rank < len(self._endpoints):
            what = f"UserDefinedCollectiveRoleMaker: current_id {self._rank} of {len(self._endpoints)} worker_endpoints"
            raise bad("UM-FLUID-001", what, "give the endpoints of all workers, and the place of this one among them", where=user_line())  # fmt: skip
        return collective_place(self._rank, self._endpoints)


class MpiRoleMaker:
    """`MPISymetricRoleMaker`: refused."""

    def __init__(self, *_given: object) -> None:
        refuse_mpi()


def refuse_mpi() -> NoReturn:
    """Half of the processes of an MPI job were servers there; here a launcher says it."""
    hint = "role_maker.PaddleCloudRoleMaker, and `umiak launch --server_num 2 --trainer_num 2`; under mpirun as well"
    raise bad("UM-FLUID-003", "role_maker.MPISymetricRoleMaker does not work", hint, where=user_line())


def collective_place(rank: int | None = None, endpoints: Sequence[str] = ()) -> FleetSeat:
    """A worker among others, without servers. Without arguments as the environment says; without a word in it, alone."""
    seat = worker_seat.read(os.environ).found
    if rank is None:
        world = 1 if seat is None else seat.trainers
        own = 0 if seat is None else seat.rank
        endpoints = () if seat is None else seat.endpoints.get(Role.TRAINER, ())
        return roles.FleetSeat(seat=PsSeat(rank=own, world=world), workers=tuple(endpoints))
    return roles.FleetSeat(seat=PsSeat(rank=rank, world=len(endpoints)), workers=tuple(endpoints))

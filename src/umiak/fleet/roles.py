"""This process's place in a job, for programs that ask fleet for it:
from its environment, or from a role maker's arguments. A decider.

of_environment(environ)                        as `umiak launch`, another launcher or a platform says
of_arguments({"role": 2, "current_id": 0, "worker_num": 2, "server_endpoints": [...]}, environ)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.contracts import native, start
from umiak.contracts import seat as worker_seat
from umiak.core.cluster import Role
from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.ps import environment
from umiak.ps.environment import PsSeat, SeatRole
from umiak.ps.errors import BadRequest
from umiak.ps.options import BFLOAT16, FLOAT32, WIRES, SessionOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.json_types import JsonMapping

WORKER, SERVER = 1, 2
"""``fleet.Role.WORKER`` and ``fleet.Role.SERVER``."""


@value
class FleetSeat:
    """A place, and who else is there."""

    seat: PsSeat
    workers: tuple[str, ...] = ()
    """``host:port`` of every trainer, in rank order, as far as they are known."""

    @property
    def role(self) -> int:
        """As fleet's role makers have it."""
        return SERVER if self.seat.role is SeatRole.SERVER else WORKER

    @property
    def nodes(self) -> int:
        """Machines with trainers."""
        return max(len({each.rpartition(":")[0] for each in self.workers}), 1)


def of_environment(environ: Mapping[str, str]) -> FleetSeat:
    """As the worker's environment says; without a word in it, this process is alone."""
    seat = environment.seat(environ)
    found = worker_seat.read(environ).found
    return FleetSeat(seat=seat, workers=found.endpoints.get(Role.TRAINER, ()) if found is not None else ())


def durability_ms(environ: Mapping[str, str]) -> int | None:
    """How often servers make pushes durable, if the person who starts the job says so:
    a killed server then comes back with them.
    """
    text = environ.get(native.PS_DURABILITY, "").strip()
    if not text:
        return None
    found = worker_seat.whole(text, 1)
    if found is None:
        what = f"{native.PS_DURABILITY}: expected an integer, 1 or more: {text}"
        raise BadRequest.of("UM-FLEET-005", what, hint=f"{native.PS_DURABILITY}=20")
    return found


def session_options(environ: Mapping[str, str]) -> SessionOptions:
    """What the person who starts the job says of its servers, for programs that have no place for it."""
    wire = environ.get(native.PS_WIRE, "").strip() or FLOAT32
    if wire not in WIRES:
        what = f"{native.PS_WIRE}: expected {' or '.join(WIRES)}: {wire}"
        raise BadRequest.of("UM-FLEET-005", what, hint=f"{native.PS_WIRE}={BFLOAT16}")
    prefetch = environ.get(native.PS_PREFETCH, "").strip() or "1"
    if prefetch not in ("0", "1"):
        what = f"{native.PS_PREFETCH}: expected 0 or 1: {prefetch}"
        raise BadRequest.of("UM-FLEET-005", what, hint=f"{native.PS_PREFETCH}=0")
    return SessionOptions(durability_ms=durability_ms(environ), wire=wire, prefetch=int(prefetch))


def of_arguments(given: JsonMapping, environ: Mapping[str, str]) -> FleetSeat:
    """As a ``UserDefinedRoleMaker`` was told. Job and token are the environment's.
    `BadRequest` with everything that is wrong.
    """
    workers = tuple(given.get("worker_endpoints") or ())
    servers = tuple(given.get("server_endpoints") or ())
    world = int(given.get("worker_num") or len(workers))
    role, rank = given.get("role"), given.get("current_id")
    wrong = []
    if role not in (WORKER, SERVER):
        wrong.append(f"role: neither Role.WORKER nor Role.SERVER: {role!r}")
    if not servers:
        wrong.append("server_endpoints is missing, so the addresses of the servers are unknown")
    if world < 1:
        wrong.append("worker_num and worker_endpoints are missing, so the number of trainers is unknown")
    most = len(servers) if role == SERVER else world
    if not isinstance(rank, int) or not 0 <= rank < max(most, 1):
        wrong.append(f"current_id: expected an integer from 0 to {max(most, 1) - 1}: {rank!r}")
    if wrong:
        hint = "UserDefinedRoleMaker(current_id=0, role=Role.WORKER, worker_num=2, server_endpoints=[...])"
        raise BadRequest(
            *(Problem(code="UM-FLEET-001", what=f"UserDefinedRoleMaker: {what}", hint=hint) for what in wrong)
        )
    addresses = environment.addresses(",".join(servers), "server_endpoints")
    seat = PsSeat(
        role=SeatRole.SERVER if role == SERVER else SeatRole.TRAINER,
        rank=int(rank),  # type: ignore[arg-type]
        world=world,
        servers=addresses,
        job=environ.get(native.JOB_ID, "").strip(),
        token=environ.get(start.TOKEN, "").strip() or None,
    )
    if worker_seat.is_own(environ):
        told = environment.seat(environ)
        seat = replace(seat, state_dir=told.state_dir, restarts=told.restarts, launched=told.launched)
    return FleetSeat(seat=seat, workers=workers)

"""What both `fleet` objects of `fluid.incubate.fleet` answer: who is there, and which files and batches are whose. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umiak.fluid.distributed.role_makers import CloudRoleMaker, FluidRoleMaker, collective_place
from umiak.fluid.record.current import default_main_program, default_startup_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import Reader
    from umiak.fluid.record.program import RecordedProgram


class FluidFleet:
    """One of them."""

    is_collective = False

    def __init__(self) -> None:
        self._maker: FluidRoleMaker | None = None
        self._program: RecordedProgram | None = None
        self._startup: RecordedProgram | None = None

    def init(self, role_maker: Any = None) -> None:
        """Find out who this process is. An executor in its place, as pslib has it, is taken for nothing."""
        if role_maker is not None and not isinstance(role_maker, FluidRoleMaker) and not hasattr(role_maker, "run"):
            what = f"fleet.init: expected a role maker, got {role_maker!r}"
            raise bad("UM-FLUID-001", what, "role_maker.PaddleCloudRoleMaker()", where=user_line())
        known = role_maker if isinstance(role_maker, FluidRoleMaker) else None
        self._maker = known or CloudRoleMaker(is_collective=self.is_collective)
        self._maker.generate_role()

    @property
    def _role_maker(self) -> FluidRoleMaker:
        if self._maker is None:
            raise bad("UM-FLUID-001", "fleet is used before it knows who this process is", "fleet.init(role)", where=user_line())  # fmt: skip
        return self._maker

    # ---- who is there

    def is_first_worker(self) -> bool:
        return self._role_maker.is_first_worker()

    def is_worker(self) -> bool:
        return self._role_maker.is_worker()

    def is_server(self) -> bool:
        return self._role_maker.is_server()

    def worker_index(self) -> int:
        return self._role_maker.worker_index()

    def worker_num(self) -> int:
        return self._role_maker.worker_num()

    def server_index(self) -> int:
        return self._role_maker.server_index()

    def server_num(self) -> int:
        return self._role_maker.server_num()

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """``host:port`` of every worker, as far as they are known."""
        trainer_endpoints = self._role_maker.get_trainer_endpoints()
        return ",".join(trainer_endpoints) if to_string else trainer_endpoints

    def server_endpoints(self, to_string: bool = False) -> Any:
        """``host:port`` of every server."""
        pserver_endpoints = self._role_maker.get_pserver_endpoints()
        return ",".join(pserver_endpoints) if to_string else pserver_endpoints

    def split_files(self, files: list[str]) -> list[str]:
        """This worker's part: all parts follow each other, the first ones are longer by one where it does not come out even."""
        if not isinstance(files, list):
            raise TypeError(f"split_files: expected a list of files, got {type(files).__name__}")
        size, longer = divmod(len(files), self.worker_num())
        rank = self.worker_index()
        first = rank * size + min(rank, longer)
        return files[first : first + size + (rank < longer)]

    # ---- programs

    @property
    def main_program(self) -> RecordedProgram:
        """What workers run."""
        return self._program if self._program is not None else default_main_program()

    @property
    def startup_program(self) -> RecordedProgram:
        """What they run before."""
        return self._startup if self._startup is not None else default_startup_program()

    @property
    def _origin_program(self) -> RecordedProgram:
        return self.main_program


def check_loss(loss: Any) -> None:
    """`BadRequest` if it is none."""
    if isinstance(loss, list | tuple) or not hasattr(loss, "block"):
        raise bad("UM-FLUID-001", f"minimize: expected one loss, got {loss!r}", "add several up", where=user_line())


def distributed_batch_reader(batch_reader: Reader) -> Any:
    """`contrib.reader.distributed_batch_reader`: of each so many batches as there are trainers, the one of this trainer's number. A last round
    that is not whole is left out.
    """
    seat = collective_place().seat

    def own() -> Iterator[Any]:
        chosen = None
        for number, batch in enumerate(batch_reader()):
            place = number % seat.world
            if place == seat.rank:
                chosen = batch
            if place == seat.world - 1:
                yield chosen

    return own

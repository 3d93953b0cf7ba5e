"""``DistributedInfer``: a program that only reads rows of the servers, in a job that trains, or in one that only loads.
An adapter, for Paddle.

    infer = DistributedInfer(main_program, startup_program)
    infer.init_distributed_infer_env(executor, loss, dirname=path)      where nothing is trained: servers load, trainers get the rest
    executor.run(infer.get_dist_infer_program(), feed, fetch_list)

Programs that read tables need no change, so the program that is given back is a copy of the one that came.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import paddle
from paddle.distributed import fleet
from paddle.distributed.fleet.utils import ps_util

from umiak.fleet import calls, job, saving
from umiak.fleet.programs import parameters, rewriting, rules, sites
from umiak.fleet.programs.accessors import STATISTICS, RowCounting
from umiak.fleet.programs.rewriting import PlannedRows
from umiak.ps import checkpoint, specs
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from umiak.fleet.programs.sites import TableSite
    from umiak.ps.paddle_types import Executor, Program, RoleMaker, Variable


class DistributedInfer:
    """Paddle's class of this name."""

    def __init__(self, main_program: Program = None, startup_program: Program = None) -> None:
        main = main_program or paddle.static.default_main_program()
        self.origin_main_program = main.clone()
        self.origin_startup_program = startup_program or paddle.static.default_startup_program()
        self.sparse_table_maps: dict[str, int] | None = None

    def init_distributed_infer_env(
        self, exe: Executor, loss: Variable, role_maker: RoleMaker = None, dirname: str | None = None
    ) -> None:
        """Begin a job that reads what `fleet.save_persistables` has saved.
        In a job that trains there is nothing to do.
        """
        del loss  # nothing learns, so nothing is minimized
        if job.current() is None:
            fleet.init(role_maker)
        begun = job.current()
        if begun is None:
            raise bad("UM-FLEET-064", "DistributedInfer: a collective job has no servers to read from", "fleet.init()")
        if begun.runners or begun.has_begun:
            return
        if begun.is_server:
            calls.init_server(begun, dirname)
            calls.run_server(begun)
            raise SystemExit(0)  # Paddle's servers do not come back from here either
        self._plan_tables(begun, dirname)
        rewriting.forget(self.origin_startup_program, begun.tables)
        exe.run(self.origin_startup_program)
        calls.init_worker(begun)
        if dirname is not None:
            if not begun.session.seat.servers:
                saving.load_tables(begun, dirname)
            file = Path(dirname) / saving.DENSE
            if not file.exists():
                what = f"DistributedInfer: no dense parameters beneath {dirname}: there is no {saving.DENSE}"
                raise bad("UM-FLEET-064", what, "give the path that fleet.save_persistables was given")
            parameters.write(paddle.static.global_scope(), paddle.load(str(file), return_numpy=True))

    def get_dist_infer_program(self) -> Program:
        """A program that the executor runs with rows of the servers."""
        begun = job.current()
        if begun is None:
            what = "DistributedInfer.get_dist_infer_program: there is no job with servers"
            raise bad("UM-FLEET-064", what, "call init_distributed_infer_env first")
        self.sparse_table_maps = {name: number for number, name in enumerate(begun.tables)}
        return self.origin_main_program

    def _plan_tables(self, begun: job.FleetJob, dirname: str | None) -> None:
        found = sites.survey(self.origin_main_program)
        path = None if dirname is None else saving.tables_beneath(dirname)
        saved = {} if path is None else checkpoint.read(path).tables
        missing = [name for name in found.tables if path is not None and name not in saved]
        if missing:
            what = f"{path} has no table {', '.join(missing)}"
            raise bad("UM-FLEET-064", what, f"it has {', '.join(saved)}: the program must be the one that was trained")
        for name, site in found.tables.items():
            spec = specs.from_plain(saved[name].spec) if saved else self._first(site)
            assert isinstance(spec, specs.SparseTable)
            # How rows that count are read: by what of the program's columns the table does not hold as weights.
            has_statistics = site.dim - spec.dim >= STATISTICS
            counting = RowCounting(columns=site.dim, has_statistics=has_statistics) if spec.accessor else None
            begun.tables.add(PlannedRows(site=site, spec=spec, counting=counting))

    def _first(self, site: TableSite) -> specs.SparseTable:
        """Of a table that nothing was saved of."""
        learning = rules.learning(paddle.optimizer.SGD())
        init = rules.first_rows(self.origin_startup_program, site.name).init
        parameter = self.origin_main_program.global_block().vars[site.name]
        return rewriting.table_spec(site, parameter, learning, paddle.optimizer.SGD(), init)


def install() -> None:
    """Put ours in place of Paddle's."""
    ps_util.DistributedInfer = fleet.utils.DistributedInfer = DistributedInfer

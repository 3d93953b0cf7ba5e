"""A session: one process's part in a job with parameter servers, made by `init`, found by everything that is not given another one. An adapter.

Nothing is connected until it is needed, so that a server's process can ask `is_server` first and a script that only reads a
checkpoint needs no server.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
import weakref
from typing import TYPE_CHECKING, overload

from umiak.ps import clients, communicators, environment, strategies
from umiak.ps.clients.local import LocalClient
from umiak.ps.environment import SeatRole
from umiak.ps.errors import BadRequest, bad
from umiak.ps.options import FLOAT32, SessionOptions
from umiak.ps.servers import serving
from umiak.ps.specs import DenseTable, SparseTable
from umiak.ps.strategies import Async, Geo
from umiak.ps.tables import prefetching
from umiak.ps.tables.lookup import TableRegistry
from umiak.ps.tables.numpy_tables import DenseTableHandle, SparseTableHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Protocol, TypeVar

    from numpy.typing import ArrayLike

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.core.problem import Problem
    from umiak.ps.clients import Client
    from umiak.ps.environment import PsSeat
    from umiak.ps.manifest import Manifest
    from umiak.ps.strategies import Collective, Strategy
    from umiak.ps.tables.prefetching import Looks

    Batch = TypeVar("Batch")

    class KnownOptimizer(Protocol):
        """What barriers, saves and loads ask of the session's optimizers."""

        def upload_changes(self, *, at_once: bool = True) -> None: ...
        def refresh(self, *, everything: bool = False) -> None: ...
        def store_buffers(self) -> None: ...
        def restore_buffers(self, loaded: Collection[str]) -> None: ...


TABLE = "table"
"""A table's name, where none is said."""


class Session:
    """This process's seat and what belongs to it. A context manager: leaving it without an exception is `finish`."""

    def __init__(
        self,
        seat: PsSeat,
        strategy: Strategy | Collective,
        options: SessionOptions,
        *,
        connect: Callable[[], Client] | None = None,
    ) -> None:
        """``connect`` makes the client where it is not the usual one: see `Session.connected`."""
        self.seat = seat
        self.strategy = strategy
        self.options = options
        self._connect = connect or self.connected
        self._client: Client | None = None
        self._communicator: communicators.Communicator | None = None
        self._registry: TableRegistry | None = None
        self._finished = False
        self.optimizers: weakref.WeakSet[KnownOptimizer] = weakref.WeakSet()
        """Those that were made for this session."""

    # ---- who am I

    @property
    def is_server(self) -> bool:
        return self.seat.role is SeatRole.SERVER

    @property
    def is_first(self) -> bool:
        """Whether this is the trainer that does what is done once: printing, saving."""
        return not self.is_server and self.seat.rank == 0

    @property
    def rank(self) -> int:
        """This trainer's (or server's) number."""
        return self.seat.rank

    @property
    def world(self) -> int:
        """How many trainers there are."""
        return self.seat.world

    @property
    def step(self) -> int:
        """The step that comes next. More than 0 at the start of a trainer that was restarted in a sync job."""
        return self.communicator.step

    # ---- a server

    def serve(self, *, linger_s: float = 0.0) -> int:
        """Serve this process's shards until the job is over; returns the exit status.

        After SIGTERM it goes on for ``linger_s``, or until the trainers are done: they may have something to save.
        """
        if not self.is_server:
            raise bad("UM-PS-011", "this process is no server", "ask `session.is_server` first")
        return serving.serve(self.seat, self.options, linger_s=linger_s)

    # ---- a trainer

    @property
    def client(self) -> Client:
        """The connection to the servers; connects when it is asked for first."""
        if self._client is None:
            if self.is_server:
                raise bad(
                    "UM-PS-011",
                    "a server's process does not train",
                    "if session.is_server: raise SystemExit(session.serve())",
                )
            self._client = self._connect()
            atexit.register(self._at_exit)
        return self._client

    def connected(self) -> Client:
        """A client as this seat has it: of the job's servers, or of tables in this process."""
        if self.seat.role is SeatRole.ALONE:
            return LocalClient(shards=self.options.shards)
        return clients.connect(self.seat, self.options)

    @property
    def communicator(self) -> communicators.Communicator:
        """What carries the strategy out."""
        if self._communicator is None:
            strategy = self.strategy
            if isinstance(strategy, Geo) and self.seat.role is SeatRole.ALONE:
                strategy = Async()  # there is nobody to exchange differences with
            options = self.options
            self._communicator = communicators.make(
                strategy, self.client, rank=self.rank, world=self.world, timeout_s=options.timeout_s, wire=options.wire
            )
        return self._communicator

    @property
    def registry(self) -> TableRegistry:
        """The embedding tables of this process."""
        if self._registry is None:
            self._registry = TableRegistry(self.communicator)
        return self._registry

    @overload
    def table(self, spec: SparseTable, name: str = TABLE) -> SparseTableHandle: ...
    @overload
    def table(self, spec: DenseTable, name: str = TABLE, *, values: ArrayLike | None = None) -> DenseTableHandle: ...
    def table(
        self, spec: SparseTable | DenseTable, name: str = TABLE, *, values: ArrayLike | None = None
    ) -> SparseTableHandle | DenseTableHandle:
        """A table for a program that computes gradients itself: made on the servers, or found there.

        ``values`` are the first ones of a dense table, zeros if there are none; trainer 0's count.
        """
        if isinstance(spec, SparseTable):
            return SparseTableHandle(name, spec, self.communicator)
        if isinstance(spec, DenseTable):
            return DenseTableHandle(name, spec, self.communicator, values)
        hint = "ps.SparseTable(dim=8, rule=ps.Adam(0.01)) or ps.DenseTable(arrays=(ps.Array('w', (8, 1)),))"
        raise bad("UM-PS-008", f"expected a table, got {spec!r}", hint)

    def prefetch(self, batches: Iterable[Batch], ids_of: Callable[[Batch], Looks]) -> Iterator[Batch]:
        """The same batches; the rows of each come with the end of the step before it, where the strategy allows that.

        ``ids_of`` says which layer, or table, a batch asks for which ids: a dict, or pairs. Ids are as the layer is
        given them: a tuple of values and offsets, or a list of those for ``slots``. One batch is read ahead. Rows are
        those that a pull right behind the step before reads; what is asked for otherwise than was said is pulled.
        """
        if not self.reads_ahead:
            return iter(batches)
        return prefetching.ahead(batches, ids_of, self.communicator.next_rows)

    @property
    def reads_ahead(self) -> bool:
        """Whether rows come with the end of the step before, where it is said which ones."""
        return bool(self.options.prefetch) and self.communicator.can_read_ahead

    def end_step(self) -> None:
        """What this trainer has pushed to tables of its own since the last one is a step. Optimizers of frameworks say it themselves."""
        self.communicator.end_step()

    def barrier(self, name: str = "barrier") -> None:
        """Wait until every trainer that lives has come here with everything that it has pushed, and take that over: models have it."""
        self.send_changes()
        self._wait(name)
        self.catch_up()

    def meet(self, name: str) -> None:
        """Wait as `barrier` does, and leave the parameters of models as they are."""
        self._wait(name)
        self.communicator.catch_up()

    def _wait(self, name: str) -> None:
        self.communicator.next_rows.forget()  # others may have set rows, and say so by coming here
        self.communicator.flush()
        self.client.barrier(name)  # the client counts the turns of a name; servers keep names for ever

    def send_changes(self) -> None:
        """Before others are met: parameters that the script has set since the last step."""
        if self.communicator.may_be_behind:
            for optimizer in self.optimizers:
                optimizer.upload_changes(at_once=False)

    def catch_up(self) -> None:
        """Take over what others have sent. Else models would have rows of now and dense parameters of this trainer's last step.

        What the script has set is sent first, so it is not overwritten.
        """
        self.send_changes()
        self.communicator.catch_up()
        if self.communicator.may_be_behind:
            for optimizer in self.optimizers:
                optimizer.refresh()

    def gather(self, payload: bytes, name: str = "gather") -> list[bytes]:
        """What every trainer brings, up to 1 MiB each, in order of rank; b"" of one that is lost or done.

        Every trainer calls it as often as the others. Cheap: it waits for the others, and for nothing that was pushed.
        """
        return self.client.gather(name, payload)

    def take(self, name: str) -> int:
        """The next of the numbers 0, 1, 2, ... of that name; each is given to one trainer only."""
        return self.client.take(name)

    def flush(self) -> None:
        """Return when everything that this trainer has pushed is on the servers."""
        self.communicator.flush()

    def finish_steps(self) -> None:
        """This trainer has no more steps, though the others may: theirs do not wait for it, and are means over those that are left.

        It still reads, saves and meets the others. Being done says it as well.
        """
        self.communicator.flush()
        self.communicator.finish_steps()

    def finish(self) -> None:
        """This trainer is done: everything is sent, and the servers know. Happens at the end of the script by itself."""
        client = self._end()
        if client is None:
            return
        if self._communicator is not None:
            self._communicator.flush()
            self._communicator.close()
        client.done()
        client.close()

    def abandon(self) -> None:
        """This trainer has failed: it hangs up without a word, so that the servers wait for it to come back."""
        client = self._end()
        if client is not None:
            client.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()

    def _end(self) -> Client | None:
        """The client, the first time that this is asked."""
        if self._finished or self._client is None:
            return None
        self._finished = True
        atexit.unregister(self._at_exit)
        return self._client

    def _at_exit(self) -> None:
        """A script that ended well is done; one that failed must not say so."""
        if getattr(sys, "last_value", None) is not None:
            self.abandon()
            return
        try:
            self.finish()
        except Exception:  # noqa: BLE001 - whatever it is, the script must not end with 0
            traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    # ---- checkpoints

    def save(self, path: str, *, metadata: JsonMapping | None = None, mode: str = "all") -> None:
        """Save all tables to a directory, while others go on training. The first trainer saves, others do nothing.

        In sync, it holds exactly the steps that the first trainer has done. Otherwise call `barrier` first if everybody's
        last steps must be in it.
        """
        self.communicator.flush()
        if self.is_first:
            from umiak.ps import checkpoint

            self.registry.open()  # else a checkpoint from before the first batch would lack tables
            for optimizer in self.optimizers:
                optimizer.store_buffers()
            if not self.communicator.keeps_tables:
                for optimizer in self.optimizers:
                    optimizer.upload_changes()
            checkpoint.save(
                self.client, path, metadata={**(metadata or {})}, mode=mode, step=self.communicator.server_step
            )

    def load(self, path: str, manifest: Manifest | None = None) -> JsonObject:
        """Load all tables from a directory that `save` made, with any number of servers; returns its metadata.

        Every trainer calls it, after its tables and its optimizer are made and before its first step; the model has the loaded
        parameters and buffers then. A line says which tables were not in it, and which of those in it nobody here has. Learning rate, entry, initializer and clip are as the script has them, and a line says which of them
        were saved otherwise. ``manifest``: that of the directory, if it was read already.
        """
        from umiak.ps import checkpoint

        if self.is_first or self.communicator.keeps_tables:
            manifest = checkpoint.load(self.client, path, manifest, counts_steps=self.communicator.counts_steps)
        self.meet("load")
        manifest = manifest or checkpoint.read(path)
        self.take_loaded(manifest.tables)
        if self.is_first:
            self.registry.open()
            checkpoint.compare(manifest, self.communicator.names, path)
        return dict(manifest.metadata)

    def take_loaded(self, names: Collection[str] = ()) -> None:
        """Tables have been set or loaded, all of these ``names`` from a checkpoint: models have what is in them."""
        self.communicator.next_rows.forget()
        self.communicator.reload()
        for optimizer in self.optimizers:
            optimizer.refresh(everything=True)  # else the first step would learn from parameters of before
            optimizer.restore_buffers(names)


# ---- of this process


class _Process:
    """What this process has."""

    session: Session | None = None


def init(
    strategy: Strategy | str = "async",
    *,
    shards: int = 256,
    durability_ms: int | None = None,
    state_dir: str | None = None,
    on_loss: str = "fail",
    grace_s: float = 60.0,
    timeout_s: float | None = None,
    wire: str = FLOAT32,
    prefetch: int = 1,
    metrics: int | str | None = None,
    tls: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    **flags: object,
) -> Session:
    """This process's part in its job, found out from the environment; it becomes the session that everything here uses.

    ``strategy`` is a value: ``ps.Sync()``, ``ps.Async()``, ``ps.HalfAsync(merge=4)``, ``ps.Geo(every=100)`` or ``ps.Hybrid()``.
    Or it is a name, ``"half_async"``, and ``flags`` are its settings as Paddle's communicator has them: ``max_merge_var_num=4``.
    ``durability_ms`` lets a killed server come back with everything. ``wire="bfloat16"`` halves what goes over the network. ``metrics=9100`` lets servers tell Prometheus how they are.
    The reference (docs/reference/ps.md) has them all. Connects to nothing yet. `BadRequest` with everything that is wrong.
    """
    chosen, said_s, problems = _chosen(strategy, flags)
    timeouts = (each for each in (timeout_s, said_s) if each is not None)
    options = SessionOptions(
        shards=shards,
        durability_ms=durability_ms,
        state_dir=state_dir,
        on_loss=on_loss,
        grace_s=grace_s,
        timeout_s=next(timeouts, SessionOptions().timeout_s),
        wire=wire,
        prefetch=prefetch,
        metrics=metrics,
        tls=tls,
    )
    problems = [*options.problems(), *problems]
    BadRequest.raise_any(problems)
    seat = environment.seat(os.environ if environ is None else environ)
    return use(Session(seat, chosen, options))


def use(session: Session) -> Session:
    """Let this be the session that everything here uses."""
    _Process.session = session
    return session


def session() -> Session:
    """The session of this process; `init` with all defaults if nobody has called it."""
    return _Process.session or init()


def _chosen(strategy: Strategy | str, flags: Mapping[str, object]) -> tuple[Strategy, float | None, list[Problem]]:
    """The strategy, the timeout if a flag says one, and what is wrong with both."""
    if isinstance(strategy, str):
        found = strategies.translated(strategy, flags)
        return found.strategy, found.timeout_s, [*found.problems]
    problems = strategies.problems(strategy)
    if not problems:
        problems = strategies.beside_a_value(strategy, flags)
    return strategy, None, problems

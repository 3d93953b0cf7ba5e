"""Which programs are recorded into: `default_main_program`, `program_guard`, `name_scope`, and whether operations run at once instead. A program."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from umiak.fluid.record.program import RecordedProgram

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Current:
    """What holds for the process; fluid has no more of it for a thread either."""

    def __init__(self) -> None:
        self.main, self.startup = RecordedProgram(), RecordedProgram()
        self.dynamic = False
        self.training = True
        self.seeded: tuple[int, int] | None = None
        self.device: str | None = None
        self.scopes: list[str] = []


_current = _Current()


def default_main_program() -> RecordedProgram:
    """The program that operations are recorded into."""
    return _current.main


def default_startup_program() -> RecordedProgram:
    """The program that gives parameters their first values."""
    return _current.startup


def switch_main_program(program: RecordedProgram) -> RecordedProgram:
    """Record into another program; returns the one before."""
    before, _current.main = _current.main, program
    return before


def switch_startup_program(program: RecordedProgram) -> RecordedProgram:
    """The same for first values."""
    before, _current.startup = _current.startup, program
    return before


@contextmanager
def program_guard(main_program: RecordedProgram, startup_program: RecordedProgram | None = None) -> Iterator[None]:
    """Operations of the block are recorded into these programs."""
    main, startup, dynamic = _current.main, _current.startup, _current.dynamic
    _current.main, _current.dynamic = main_program, False
    if startup_program is not None:
        _current.startup = startup_program
    try:
        yield
    finally:
        _current.main, _current.startup, _current.dynamic = main, startup, dynamic


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """A name for people; it changes no name of a variable, as in fluid 1.8."""
    _current.scopes.append(prefix or "")
    try:
        yield
    finally:
        _current.scopes.pop()


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Accepted: everything runs on the executor's device."""
    before, _current.device = _current.device, device
    try:
        yield
    finally:
        _current.device = before


def in_dygraph_mode() -> bool:
    """Whether operations run at once: inside `fluid.dygraph.guard`."""
    return _current.dynamic


@contextmanager
def dynamic_mode() -> Iterator[None]:
    """Operations of the block run at once, as they are while training. What `fluid.dygraph.guard` adds is in `umiak.fluid.dygraph.mode`."""
    dynamic, training = _current.dynamic, _current.training
    _current.dynamic = _current.training = True
    try:
        yield
    finally:
        _current.dynamic, _current.training = dynamic, training


def is_training() -> bool:
    """Whether operations that run at once are for training: the last `train()` or `eval()` of any layer says so, and `no_grad`."""
    return _current.training


def set_training(training: bool) -> bool:
    """The same for what follows; returns what it was."""
    before, _current.training = _current.training, training
    return before


def seed_to_set() -> int | None:
    """The `random_seed` of the current programs, once for each guard: what runs at once draws by it."""
    program = _current.startup if _current.startup.random_seed else _current.main
    key = (program.number, program.random_seed)
    if not program.random_seed or _current.seeded == key:
        return None
    _current.seeded = key
    return program.random_seed

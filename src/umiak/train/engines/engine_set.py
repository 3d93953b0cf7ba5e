"""The engines of a run, one for each of its models. An adapter, without a framework.

engines = EngineSet()
engines.add("model.py", engine)
engines.of("model.py").learn(...)
engines.tables()                        what a checkpoint has of all of them
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from umiak.core.problem import Problem, UmiakError
from umiak.schema.findings import choices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from umiak.ps.values import Opened
    from umiak.train.config.values import TableParameters
    from umiak.train.engines.engine import Engine, EnginePeers


class EngineSet:
    """Engines by the files of their models."""

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}

    def add(self, model: str, engine: Engine) -> None:
        self._engines[model] = engine

    def of(self, model: str) -> Engine:
        return self._engines[model]

    def __contains__(self, model: object) -> bool:
        return model in self._engines

    def __iter__(self) -> Iterator[Engine]:
        return iter(self._engines.values())

    def __len__(self) -> int:
        return len(self._engines)

    def warnings(self) -> tuple[Problem, ...]:
        """What is odd about their hyper-parameters, each once."""
        return tuple(dict.fromkeys(each for engine in self for each in engine.warnings))

    # ---- tables

    def tables(self) -> dict[str, Opened]:
        """All tables that a checkpoint has."""
        found: dict[str, Opened] = {}
        for engine in self:
            found |= engine.tables()
        return found

    def restore(self) -> None:
        """A checkpoint was loaded."""
        for engine in self:
            engine.restore()

    # ---- what trainers have of their own

    def store_buffers(self, peers: EnginePeers) -> None:
        """What tables do not have by themselves, before they are saved. Every trainer calls it."""
        for engine in self:
            engine.buffers.store(peers)

    def agree_on_buffers(self, peers: EnginePeers) -> None:
        """Everybody takes over what all have in common. Every trainer calls it."""
        for engine in self:
            engine.buffers.agree(peers)

    def own_buffers(self) -> str:
        """What this trainer has of its own in all models: JSON."""
        found = {engine.buffers.table: text for engine in self if (text := engine.buffers.own())}
        return json.dumps(found) if found else ""

    def set_own_buffers(self, text: str) -> None:
        """The same back into the models; those that are not in it keep what they have."""
        found: Mapping[str, str] = json.loads(text) if text else {}
        for engine in self:
            if engine.buffers.table in found:
                engine.buffers.set_own(found[engine.buffers.table])

    def generators(self) -> str:
        """What the models' code would draw next: all of them draw from the same generators."""
        return next((text for engine in self if (text := engine.generators())), "")

    def set_generators(self, packed: str, step: int) -> None:
        for engine in self:
            engine.set_generators(packed, step)


def check_tables(engines: Iterable[Engine], named: Mapping[str, TableParameters], where: str | None) -> None:
    """UmiakError if ``table_parameters`` names a table that no model has."""
    known = list(dict.fromkeys(name for engine in engines for name in engine.table_names))
    unknown = [name for name in named if name not in known]
    if unknown:
        raise UmiakError(
            *[
                Problem(
                    code="UM-TRAIN-032",
                    what=f"table_parameters: no model has a table {name}",
                    hint=choices(name, known),
                    where=where,
                )
                for name in unknown
            ]
        )

"""Models for serving: a directory that ``paddle.inference`` loads. An adapter, for Paddle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from umiak.core.problem import Problem, UmiakError
from umiak.train.engine import Engine
from umiak.train.modeling.embedding import Embedding


def export(
    engine: Engine,
    path: str,
    rows_of: Callable[[Embedding], tuple[Any, Any]],
    feeds: tuple[str, ...] = (),
    fetches: tuple[str, ...] = (),
) -> None:
    """Write the model with its rows."""
    del engine, rows_of, feeds, fetches
    raise UmiakError(Problem(code="UM-TRAIN-002", what=f"a model for serving is not there yet: {path}"))

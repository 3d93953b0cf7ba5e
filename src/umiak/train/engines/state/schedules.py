"""Where the learning-rate schedules of a model's own optimizers stand, as a tensor that checkpoints keep with the buffers. An adapter, for Paddle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOM = 4096
"""Bytes for all of them."""
NAME = "umiak.schedules"


class ScheduleState:
    """The schedules of some optimizers."""

    def __init__(self, optimizers: Sequence[Any]) -> None:
        rates = [getattr(each, "_learning_rate", None) for each in optimizers]
        self._schedules = [each for each in rates if isinstance(each, paddle.optimizer.lr.LRScheduler)]
        self._tensor = paddle.zeros([ROOM], "uint8") if self._schedules else None

    def tensors(self) -> dict[str, paddle.Tensor]:
        """None where rates are constant."""
        return {} if self._tensor is None else {NAME: self._tensor}

    def state(self) -> list[dict[str, Any]]:
        """Numbers, by their names, of each schedule."""
        return [_plain(each.state_dict()) for each in self._schedules]

    def store(self) -> None:
        """From the schedules into the tensor. What does not fit is not kept."""
        text = json.dumps(self.state()).encode()
        if self._tensor is not None and len(text) <= ROOM:
            self._tensor.set_value(np.frombuffer(text.ljust(ROOM, b"\0"), np.uint8))

    def load(self) -> None:
        """From the tensor into the schedules."""
        if self._tensor is None:
            return
        text = self._tensor.numpy().tobytes().rstrip(b"\0")
        for schedule, state in zip(self._schedules, json.loads(text) if text else [], strict=False):
            schedule.set_state_dict(state)


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _plain(each) for name, each in item.items() if not callable(each)}
    if isinstance(item, (list, tuple)):
        return [_plain(each) for each in item]
    return item if isinstance(item, (int, float, str, bool, type(None))) else float(item)

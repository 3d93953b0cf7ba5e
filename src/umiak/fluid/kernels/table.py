"""All kernels: importing this module puts them into the table. A program."""

from __future__ import annotations

from umiak.fluid.kernels import (
    algebra,
    averaging,
    chance,
    control,
    elements,
    exchange,
    learning,
    networks,
    reductions,
    selecting,
    sequences,
    tensors,
)
from umiak.fluid.kernels.ids import sampled, trees
from umiak.fluid.kernels.steps import alignment, beams, recurrent, rows, tagging
from umiak.fluid.kernels.vision import boxes, pictures

LOADED = (
    *(algebra, averaging, chance, control, elements, exchange, learning, networks, reductions, selecting, sequences),
    tensors,
    *(sampled, trees),
    *(alignment, beams, recurrent, rows, tagging),
    *(boxes, pictures),
)

"""What a comparison with plain Paddle speaks of: recorded batches and states, differences, and the outcome. Values."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from umiak.core.value import value

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


class ModelKind(str, Enum):
    """In which form a model is compared."""

    DYGRAPH = "dygraph"
    STATIC = "static"


class CompareVerdict(str, Enum):
    """What came of it."""

    EQUAL = "equal"
    DIFFERS = "differs"
    NOT_DETERMINISTIC = "not deterministic"
    """Plain Paddle differs from itself."""
    ROUNDING = "rounding"
    """So does plain Paddle from itself if its parameters change in their last digit."""
    SPARSE_GRADIENTS = "sparse gradients"
    """umiak agrees with plain Paddle if its optimizer does with gradients of some rows what it does with those of all: Adam with one epsilon (`deviations`), the
    others with gradients that are made so."""
    LAZY_ROWS = "lazy rows"
    """umiak agrees with plain Paddle if its Adam moves only rows that have a gradient (`lazy_mode`), as tables do and a remark says."""
    CLIPPED_APART = "clipped apart"
    """umiak agrees with plain Paddle if each trainer's gradients are clipped before they are added up, as a remark says."""


@value
class RecordedState:
    """What one side has after so many steps."""

    step: int
    loss: float | None
    """Of this step; None before the first."""
    values: dict[str, Any]
    """Arrays by the names of parameters and buffers."""


@value
class RecordedBatch:
    """What one trainer got in one step."""

    fields: Any
    """As `train_forward` gets them, with arrays in the place of tensors; None: it had no samples left."""
    facts: JsonObject
    """Its part of the step (``share``), samples (``size``), the epoch, and what its generators began with, if it is not the first trainer."""


@value
class ParameterDifference:
    """One parameter, or buffer, over all steps."""

    name: str
    shape: tuple[int, ...]
    first_step: int | None
    """The first step behind which it differs; 0: it was different before the first; None: it never does."""
    largest: float
    """The largest absolute difference over all steps; infinite where one side has no number."""
    relative: float
    """The same, divided by the largest number of the parameter."""
    moved: float
    """How far plain Paddle's is from where it started, at most."""
    note: str = ""


@value
class Comparison:
    """All of it."""

    steps: int
    """That both sides have done."""
    parameters: tuple[ParameterDifference, ...]
    first_loss_step: int | None
    """The first step whose losses differ."""
    largest_loss: float
    last_losses: tuple[float | None, float | None]
    """Of umiak, of plain Paddle."""

    @property
    def differing(self) -> tuple[ParameterDifference, ...]:
        """First those that differ first."""
        found = [each for each in self.parameters if each.first_step is not None]
        return tuple(sorted(found, key=lambda each: (each.first_step, -each.largest)))

    @property
    def is_equal(self) -> bool:
        return not self.differing and self.first_loss_step is None

    @property
    def largest(self) -> float:
        """Of all parameters."""
        return max([each.largest for each in self.parameters], default=0.0)

    @property
    def first_step(self) -> int | None:
        found = [each.first_step for each in self.differing if each.first_step is not None]
        found += [] if self.first_loss_step is None else [self.first_loss_step]
        return min(found, default=None)


@value
class CompareOutcome:
    """A comparison, and what explains it."""

    verdict: CompareVerdict
    comparison: Comparison
    kind: ModelKind
    trainers: int
    servers: int
    mode: str
    """How trainers work together: alone, sync, ..."""
    tolerance: float
    reasons: tuple[str, ...] = ()
    """Why it differs, as far as that is known."""
    remarks: tuple[str, ...] = ()
    """What umiak does otherwise, as training says it."""

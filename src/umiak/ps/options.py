"""What a script asks of its session beside the strategy. Values."""

from __future__ import annotations

import math

from umiak.core.problem import Problem
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_SHARDS = 4096
FLOAT32, BFLOAT16 = "float32", "bfloat16"
WIRES = (FLOAT32, BFLOAT16)


@value
class SessionOptions:
    """What a script asked for, beside the strategy. Servers and trainers of a job are given the same."""

    shards: int = 256
    """Virtual shards: a power of two, never changed in the life of a model."""
    durability_ms: int | None = None
    """Servers log pushes and make them durable this often, so that a killed one comes back with them; None: they do not."""
    state_dir: str | None = None
    """Where that log is; None: below the launcher's log directory, for this run of the job alone."""
    on_loss: str = "fail"
    """What happens when a trainer is lost for good: ``fail`` or ``go_on``."""
    grace_s: float = 60.0
    """How long a lost trainer may take to come back."""
    timeout_s: float = 60.0
    """How long a server may be away or silent."""
    wire: str = FLOAT32
    """What rows and gradients are on the way: ``float32``, or ``bfloat16``, rounded to half the bytes."""
    prefetch: int = 1
    """How many batches ahead `Session.prefetch` asks for rows: 1, or 0 for not at all."""
    metrics: int | str | None = None
    """Where servers tell Prometheus how they are: a port on this machine, or host:port; UMIAK_PS_METRICS says the same."""
    tls: Mapping[str, str] | None = None
    """Paths of PEM files, ``cert``, ``key`` and ``ca``, which both sides show and check, and the ``name`` in the certificate."""

    def problems(self) -> list[Problem]:
        """What of it can't be."""
        found = []
        if not 1 <= self.shards <= MOST_SHARDS or self.shards & (self.shards - 1):
            found.append(f"shards: not a power of two from 1 to {MOST_SHARDS}: {self.shards}")
        if self.durability_ms is not None and self.durability_ms < 1:
            found.append(f"durability_ms: not 1 or more: {self.durability_ms}")
        if self.on_loss not in ("fail", "go_on"):
            found.append(f"on_loss: neither fail nor go_on: {self.on_loss}")
        if self.grace_s <= 0:
            found.append(f"grace_s: not above 0: {self.grace_s:g}")
        if not isinstance(self.timeout_s, (int, float)) or not 0 < self.timeout_s < math.inf:
            found.append(f"timeout_s: not a number of seconds: {self.timeout_s!r}")
        if isinstance(self.prefetch, bool) or self.prefetch not in (0, 1):
            found.append(f"prefetch: neither 0 nor 1: {self.prefetch!r}")
        if self.wire not in WIRES:
            found.append(f"wire: neither {FLOAT32} nor {BFLOAT16}: {self.wire!r}")
        return [Problem(code="UM-PS-007", what=what) for what in found]

"""Whether a signal that comes again is the same one. A decider.

A signal may reach a process twice though it was sent once: ``timeout -s INT`` signals its child and then its group,
Slurm every process of a step, and launchers pass on what they get. Nobody presses Ctrl-C twice within a tenth of a
second.
"""

from __future__ import annotations

SIGTERM = 15
ONE_S = 0.1
ONE_SIGTERM_S = 1.0
"""Machines send it, also over a network."""


def is_same(number: int, at: float, first_number: int | None, first_at: float) -> bool:
    """Whether this signal, at this time in seconds, is the one that came before it."""
    return number == first_number and at < first_at + (ONE_SIGTERM_S if number == SIGTERM else ONE_S)

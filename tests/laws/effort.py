"""How many examples a law gets, as a share of what the profile gives."""

from __future__ import annotations

from hypothesis import settings


def effort(share: float) -> settings:
    """Settings for a law that is tried on this share of the profile's examples: slow laws on fewer, weighty ones on more."""
    return settings(max_examples=max(5, round(settings.default.max_examples * share)))

"""How hard laws and other generated examples are tried: some seconds by default, always the same examples in CI, and at length on request.

HYPOTHESIS_PROFILE=quick pytest tests/laws         a fifth of the examples: `make quick`; none is a constant of the sources
pytest tests/laws                                  new examples each time
CI=1 pytest tests/laws                             the same examples each time
HYPOTHESIS_PROFILE=thorough pytest tests/laws      twenty times as many
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# A busy machine must not turn a law into a failure: no deadline per example, no verdict on how fast data is made.
_CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
MATRIX = os.environ.get("UMIAK_MATRIX") == "all"
"""Whether tests try all cells of what they otherwise try a choice of: `make matrix`."""
FULL = 100
"""Examples of a law where nothing else is said."""

settings.register_profile("quick", _CALM, max_examples=FULL // 5)
settings.register_profile("full", _CALM, max_examples=FULL)
settings.register_profile("ci", _CALM, max_examples=FULL, derandomize=True, print_blob=True)
settings.register_profile("thorough", _CALM, max_examples=20 * FULL, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "full"))

if os.environ.get("HYPOTHESIS_PROFILE") == "quick":
    # Every worker would look through all modules for constants to draw: more than a second of a core each.
    providers._get_local_constants = lambda: providers._local_constants


def effort(share: float) -> settings:
    """Settings for a law that is tried on this share of the profile's examples: slow laws on fewer, weighty ones on more."""
    return settings(max_examples=times(FULL * share))


def times(full: float) -> int:
    """How often a test with a loop of its own tries something, that does so this often in `make test`."""
    return max(5, round(settings.default.max_examples * full / FULL))

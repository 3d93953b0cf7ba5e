"""How hard the laws are tried: some seconds by default, always the same examples in CI, and at length on request.

pytest tests/laws                                  new examples each time
CI=1 pytest tests/laws                             the same examples each time
HYPOTHESIS_PROFILE=thorough pytest tests/laws      twenty times as many
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A busy machine must not turn a law into a failure: no deadline per example, no verdict on how fast data is made.
_calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("quick", _calm, max_examples=100)
settings.register_profile("ci", _calm, max_examples=100, derandomize=True, print_blob=True)
settings.register_profile("thorough", _calm, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "quick"))

"""A minute of the campaign against the launcher's deciders; `make campaign MINUTES=60` runs it for an hour.

In CI the seeds are always the same; elsewhere each run takes new ones, and a failure names the seed that plays it again.
"""

from __future__ import annotations

import os
import secrets
import time

import pytest

from tests.laws import campaign

SECONDS = float(os.environ.get("UMIAK_CAMPAIGN_SECONDS", "60" if os.environ.get("CI") else "10"))
FIRST_SEED = int(os.environ.get("UMIAK_CAMPAIGN_SEED", "0" if os.environ.get("CI") else secrets.randbelow(2**31)))


def test_no_story_of_the_campaign_breaks_a_law() -> None:
    until, seed = time.monotonic() + SECONDS, FIRST_SEED
    while time.monotonic() < until:
        try:
            campaign.play_seed(seed)
        except AssertionError as error:
            again = f"python -m tests.laws.campaign --seed {seed} --count 1"
            raise AssertionError(f"seed {seed} breaks a law: {error}\nplay it again: {again}") from error
        seed += 1
    assert seed > FIRST_SEED


@pytest.mark.parametrize("seed", [336636269, 336638248, 910004011, 2013948742])
def test_stories_that_broke_a_law_once(seed: int) -> None:
    campaign.play_seed(seed)

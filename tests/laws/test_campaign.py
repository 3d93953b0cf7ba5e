"""Some hundred stories of the campaign against the launcher's deciders; `make campaign MINUTES=60` plays them for an hour.

In CI the seeds are always the same; elsewhere each run takes new ones, and a failure names the seed that plays it again.
"""

from __future__ import annotations

import os
import secrets

import pytest

from tests.support import launcher_campaign as campaign
from tests.support.effort import times

FIRST_SEED = int(os.environ.get("UMIAK_CAMPAIGN_SEED", "0" if os.environ.get("CI") else secrets.randbelow(2**31)))


@pytest.mark.timeout(1200)
def test_no_story_of_the_campaign_breaks_a_law() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + times(350)):
        try:
            campaign.play_seed(seed)
        except AssertionError as error:
            again = f"python -m tests.support.launcher_campaign --seed {seed} --count 1"
            raise AssertionError(f"seed {seed} breaks a law: {error}\nplay it again: {again}") from error


@pytest.mark.parametrize("seed", [336636269, 336638248, 910004011, 2013948742])
def test_stories_that_broke_a_law_once(seed: int) -> None:
    campaign.play_seed(seed)

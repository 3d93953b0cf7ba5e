"""A minute of the campaign against parameter servers and trainings; `make campaign-ps MINUTES=60` runs it for an hour.

In CI the seeds are always the same, with most kinds of blows and two stories of `umiak train`; elsewhere each run takes new ones, and a failure names the seed that plays it again.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from testbed import disks, hosts
from testbed.pytest_support import require
from tests.support.paths import ROOT

COUNT = int(os.environ.get("UMIAK_CAMPAIGN_COUNT", "9" if os.environ.get("CI") else "4"))
FIRST_SEED = int(os.environ.get("UMIAK_CAMPAIGN_SEED", "1268" if os.environ.get("CI") else secrets.randbelow(2**31)))


@pytest.mark.timeout(900)
@pytest.mark.paddle
def test_no_story_of_the_campaign_breaks_a_law() -> None:
    require(disks.unavailable() or hosts.available())
    # As a program of its own: it mounts disks that nobody else is to see.
    campaign = [sys.executable, "-m", "tests.support.ps_campaign", "--minutes", "60", "--tell"]
    seeds = ["--seed", str(FIRST_SEED), "--count", str(COUNT)]
    done = subprocess.run([*campaign, *seeds], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} stories, 0 broke a law" in done.stdout

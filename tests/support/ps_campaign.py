"""A campaign against parameter servers, training scripts and `umiak train`: random stories from seeds, for as long as one likes.

    python -m tests.support.ps_campaign --minutes 60            prints the first seed, and every seed that breaks a law
    python -m tests.support.ps_campaign --seed 4711 --count 1   plays one story again

Kills, stops, freezes, full disks, cuts between hosts, saves, loads and resumed runs; real processes, so a seed decides what happens
and not exactly when. What must hold is in `ps_stories` and `train_stories`. Full disks and hosts need root; without it they are
left out.
"""

from __future__ import annotations

import importlib.util
import random
import sys

from testbed import disks, hosts
from tests.support import campaigns, ps_stories, train_stories

TRAINED = 0.2
"""How many of the stories are of `umiak train`: its processes take seconds to start."""


def play_seed(seed: int) -> str:
    """One story, in words; AssertionError if a law is broken."""
    rng = random.Random(seed)
    if rng.random() < TRAINED and importlib.util.find_spec("paddle"):
        trained = train_stories.draw(rng)
        train_stories.play(trained)
        return str(trained)
    story = ps_stories.draw(rng)
    ps_stories.play(story)
    return str(story)


if __name__ == "__main__":
    disks.unshare("tests.support.ps_campaign")
    for missing in {disks.unavailable(), hosts.available()} - {None}:
        print(f"stories are left out: {missing}")
    sys.exit(campaigns.run(play_seed, __doc__ or ""))

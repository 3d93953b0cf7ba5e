"""A campaign against the launcher's deciders: random stories from seeds, for as long as one likes.

    python -m tests.support.launcher_campaign --minutes 60            prints the first seed, and every seed that breaks a law
    python -m tests.support.launcher_campaign --seed 4711 --count 1   plays one story again

Joins, losses, freezes, signals, failing workers, and cuts that heal after every length; what must hold is in `cluster_stories`.
"""

from __future__ import annotations

import random
import sys

from tests.support import campaigns, terms
from tests.support.cluster_stories import KINDS, NAMES, Blow, Outage, OutageStory, Story, check_outages, check_story
from umiak.core.value import replace


def draw_story(rng: random.Random) -> Story:
    least = rng.randint(1, 3)
    most = rng.randint(least, 5)
    servers = rng.choice([0, 0, 1])
    timeout_s = rng.choice([1.0, 5.0])
    job = terms(
        f"{least}:{most}",
        mode="ps" if servers else "collective",
        max_restart=rng.randint(0, 6),
        restart_wanted=rng.random() < 0.5 or least < most,
        elastic_timeout_s=20.0,
        heartbeat_timeout_s=timeout_s,
        fence_s=1.25 * min(1.0, timeout_s / 5),
        trainer_restart=rng.choice(["group", "alone"]),
    )
    blows = tuple(
        Blow(
            kind=rng.choice(KINDS),
            whom=rng.randrange(6),
            side=rng.randint(1, 62),
            pause_s=rng.choice([0.0, 0.001, 0.02, rng.uniform(0, 4) * timeout_s, rng.uniform(0, 1) * timeout_s, 12.0]),
        )
        for _ in range(rng.randint(1, 18))
    )
    latency_s = rng.choice([0.0, 0.02, 0.2])
    return Story(terms=job, seed=rng.randrange(2**32), latency_s=latency_s, servers=servers, blows=blows)


def draw_outages(rng: random.Random) -> OutageStory:
    size = rng.randint(2, 6)
    timeout_s = rng.choice([1.0, 5.0])
    job = terms(
        f"{rng.choice([1, size])}:{size}", max_restart=1000, heartbeat_timeout_s=timeout_s, elastic_timeout_s=60.0
    )
    job = replace(job, fence_s=1.25 * min(1.0, timeout_s / 5))
    outages = []
    for _ in range(rng.randint(1, 5)):
        side = rng.sample(NAMES[:size], rng.randint(1, size - 1))
        others = [name for name in NAMES[:size] if name not in side]
        single = rng.random() < 0.4
        outages.append(
            Outage(
                side=frozenset(side[:1] if single else side),
                only=rng.choice(others) if single else None,
                timeouts=rng.choice([rng.uniform(0, 4), rng.choice([1, 2, 3]) + rng.uniform(-0.1, 0.4)]),
                calm_s=rng.choice([0.0, rng.uniform(0, 3) * timeout_s, 40.0]),
            )
        )
    latency_s = rng.choice([0.0, 0.02, 0.1])
    return OutageStory(terms=job, seed=rng.randrange(2**32), latency_s=latency_s, outages=tuple(outages))


def play_seed(seed: int) -> None:
    """One story; AssertionError if a law is broken."""
    rng = random.Random(seed)
    if rng.random() < 0.5:
        check_outages(draw_outages(rng))
    else:
        check_story(draw_story(rng))


if __name__ == "__main__":
    sys.exit(campaigns.run(play_seed, __doc__ or ""))

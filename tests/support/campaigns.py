"""What all campaigns share: stories from seeds, one after another, for as long as one likes.

python -m CAMPAIGN --minutes 60            prints the first seed, and every seed that breaks a law
python -m CAMPAIGN --seed 4711 --count 1   plays one story again
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable


def run(play_seed: Callable[[int], object], description: str) -> int:
    """Do what the command line says; the exit status is 1 if a story broke a law."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--count", type=int, default=sys.maxsize)
    parser.add_argument("--tell", action="store_true", help="print each story before it is played")
    given = parser.parse_args()
    print(f"first seed: {given.seed}", flush=True)
    until, played, broken = time.monotonic() + 60 * given.minutes, 0, 0
    while time.monotonic() < until and played < given.count:
        seed = given.seed + played
        try:
            told = play_seed(seed)
        except Exception:  # noqa: BLE001 - a checkpoint that can't be read is a broken law, too
            broken += 1
            print(f"seed {seed}:\n{traceback.format_exc(limit=-3)}", flush=True)
        else:
            if given.tell:
                print(f"seed {seed}: {told}", flush=True)
        played += 1
    print(f"{played} stories, {broken} broke a law")
    return 1 if broken else 0

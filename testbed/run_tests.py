"""Run the tests, and build Kubernetes meanwhile where it is not built yet.

    python -m testbed.run_tests -n 3 --tb=short

Where it is built, or can't be, this is pytest with these words. Otherwise the tests that need it run when it is built, in a second run
of pytest; until then all others run, and the build takes the time that they leave over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from testbed.kubernetes import programs

NOTHING_SELECTED = 5
BUILD = ("nice", "-n", "19", sys.executable, "-m", "testbed.prepare", "--kubernetes")


def main(words: Sequence[str]) -> int:
    """The exit status of pytest; of two runs, of the first one that failed."""
    if not any(programs.is_missing(each) for each in ("kubernetes", "kueue")):
        return _tests(words)
    builder = subprocess.Popen(BUILD, start_new_session=True)
    try:
        if any(word.startswith("-m") for word in words):  # somebody has chosen tests already
            builder.wait()
            return _tests(words)
        print("testbed: tests that need Kubernetes come last, when it is built", file=sys.stderr, flush=True)
        first = _tests([*words, "-m", "not kubernetes"])
        print("testbed: all other tests have run; waiting for Kubernetes", file=sys.stderr, flush=True)
        builder.wait()
        second = _tests([*words, "-m", "kubernetes"])
    finally:
        if builder.poll() is None:  # interrupted: the compilers go with it
            os.killpg(builder.pid, signal.SIGTERM)
            builder.wait()
    ran = [each for each in (first, second) if each != NOTHING_SELECTED]
    return next((each for each in ran if each), 0) if ran else NOTHING_SELECTED


def _tests(words: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

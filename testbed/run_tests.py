"""Run the tests, and build Kubernetes meanwhile where it is not built yet.

    python -m testbed.run_tests -n 3 --tb=short

Where it is built, or can't be, this is pytest with these words. Otherwise the tests that need it run when it is built, in a second run
of pytest; until then all others run, and the build takes the time that they leave over.

Tests of real processes share the cores with others. Where at most three of them fail, they run again with nothing beside them: one that
passes three times is told as unstable, with its first failure above, and does not fail the run. A defect of timing that shows up without load
as well, in one run of three, does; so does every failure of a unit test, a law or a story.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.kubernetes import programs
from testbed.pytest_support import FAILED_TESTS

NOTHING_SELECTED = 5
FAILED = 1
OF_PROCESSES = "tests/integration/"
AT_MOST, TIMES = 3, 3
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
    """The exit status of pytest: 0 as well where all that failed are unstable."""
    with tempfile.TemporaryDirectory() as directory:
        failures = Path(directory) / "failed"
        status = _pytest(words, {**os.environ, FAILED_TESTS: str(failures)})
        failed = sorted(set(failures.read_text().splitlines())) if failures.exists() else []
    if status != FAILED or not are_unstable(failed):
        return status
    names = "".join(f"\n  {name}" for name in failed)
    print(
        f"testbed: UNSTABLE, failed beside others and passed {TIMES} times alone:{names}", file=sys.stderr, flush=True
    )
    return 0


def are_unstable(failed: Sequence[str]) -> bool:
    """Whether these few tests of processes pass each time when nothing runs beside them."""
    if not 0 < len(failed) <= AT_MOST or not all(name.startswith(OF_PROCESSES) for name in failed):
        return False
    print(f"testbed: {len(failed)} failed; they run alone now, {TIMES} times", file=sys.stderr, flush=True)
    return all(_pytest(["-n", "0", "--tb=short", "-q", *failed], dict(os.environ)) == 0 for _ in range(TIMES))


def _pytest(words: Sequence[str], environ: dict[str, str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False, env=environ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

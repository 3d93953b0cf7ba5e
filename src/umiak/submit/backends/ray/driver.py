"""The driver of a run: the entry point of a Ray job, on the cluster, with the Python that has `ray`. A program.

    python umiak-launcher.pyz -m umiak.submit.backends.ray.driver run.json

If this process is killed, Ray ends the actors, and the kernel tells their launchers.
"""

from __future__ import annotations

import signal
import sys

from umiak.submit.backends.ray import plan as plans
from umiak.submit.backends.ray.elastic import ElasticDriver
from umiak.submit.backends.ray.run_driver import RunDriver, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NO_RAY = 3


def main(words: Sequence[str]) -> int:
    """The command; its exit status is the job's."""
    try:
        import ray
    except ImportError:
        say(f"error: {sys.executable} has no ray [UM-SUBMIT-320]")
        say('  hint: name the Python of the cluster in the place\'s settings: `python = "/opt/ray/bin/python"`')
        return NO_RAY
    with open(words[0], encoding="utf-8") as file:
        run = plans.from_text(file.read())
    # Without a prefix of Ray's, every line once: what the actors print is not what we want to show.
    ray.init(log_to_driver=False, logging_level="warning")
    driver = ElasticDriver(ray, run) if run.least else RunDriver(ray, run)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, driver.signalled)
    try:
        return driver.main()
    finally:
        sys.stdout.flush()
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

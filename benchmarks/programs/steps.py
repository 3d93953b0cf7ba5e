"""A job whose steps are counted: each is the same work, and every fiftieth writes a line of metrics.

    python steps.py DIRECTORY COUNTS LINE

COUNTS has the number of steps so far and the processor time that they took. It ends when COUNTS is gone.
"""

import os
import sys
import time


def main() -> None:
    """Until it is told to end."""
    directory, counts, line = sys.argv[1:]
    fd = os.open(counts, os.O_WRONLY)
    steps = 0
    with open(os.path.join(directory, "metrics.jsonl"), "a", encoding="utf-8") as metrics:
        while os.path.exists(counts):
            for _ in range(10):
                sum(number * number for number in range(20_000))
            steps += 10
            os.pwrite(fd, f"{steps:20d} {time.process_time():20.6f}".encode(), 0)
            if steps % 50 == 0:
                metrics.write(f"{line}\n")
                metrics.flush()


main()

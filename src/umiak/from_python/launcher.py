"""The launcher's process under `umiak.run`: `umiak launch` that stops when its caller is gone. A program, Linux only.

    python -m umiak.from_python.launcher CALLER_PID DIRECTORY FLAGS... PROGRAM...

When the caller ends, however it ends, the kernel sends this process SIGTERM: workers have their grace to save something, and
then nothing is left, the directory of the call included.
"""

from __future__ import annotations

import os
import signal
import sys

from umiak.adapters import kernel_requests
from umiak.cli.main import main as umiak

STOPPING = (signal.SIGTERM, signal.SIGINT)


def main(argv: list[str]) -> int:
    """Launch, and clean up after a caller that can't do it any more; the exit status."""
    caller, path = int(argv[0]), argv[1]
    # A caller that ignores or blocks these would leave a launcher that nothing ends.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    kernel_requests.ask_for_death_signal(signal.SIGTERM)
    started = os.getpid()
    status = 128 + signal.SIGTERM
    if os.getppid() == caller:  # else it ended before the kernel was told to tell us
        status = umiak(["launch", *argv[2:]])
    if os.getpid() == started and os.getppid() != caller:  # the half of the launcher that outlives the other one
        from umiak.from_python import exchange

        exchange.remove(path)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

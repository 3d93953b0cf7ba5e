"""The launcher's process under `umiak.run`: a launch that stops when its caller is gone. A program, Linux only.

    python -m umiak.api.launcher CALLER_PID DIRECTORY

What is launched lies in the directory of the call, as the caller has checked it. When the caller ends, however it ends,
the kernel sends this process SIGTERM: workers have their grace to save something, and then nothing is left, the
directory of the call included.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from umiak.adapters import kernel_requests, ownership
from umiak.core.decode import decode
from umiak.launch import start
from umiak.launch.command_line.reading import Request

STOPPING = (signal.SIGTERM, signal.SIGINT)
REQUEST = "launch.json"


def main(argv: list[str]) -> int:
    """Launch, and clean up after a caller that can't do it any more; the exit status."""
    caller, path = int(argv[0]), argv[1]
    # A caller that ignores or blocks these would leave a launcher that nothing ends.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    kernel_requests.ask_for_death_signal(signal.SIGTERM)
    status = 128 + signal.SIGTERM
    if os.getppid() == caller:  # else it ended before the kernel was told to tell us
        request = decode(Request, json.loads(ownership.read_private(path, REQUEST)))
        try:
            status = start.launch(request, os.environ)
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
    if os.getppid() != caller:
        from umiak.api import exchange

        exchange.remove(path)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

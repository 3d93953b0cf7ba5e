"""What a worker is told so that the launcher can see that it gets on, and where it hangs if it does not. A decider.

With ``--hang_timeout`` a worker touches UMIAK_PROGRESS_FILE (`umiak.progress()`), and a Python worker writes the stacks
of all its threads to UMIAK_STACK_FILE when it gets the signal UMIAK_STACK_SIGNAL. The latter is arranged by the
``sitecustomize`` module in `launch/inject`, which Python imports because its directory comes first on PYTHONPATH.
The stack file exists as soon as the worker is ready for the signal; before that the signal would end the worker.
"""

from __future__ import annotations

from umiak.contracts.injected import PYTHON_PATH, in_front

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRESS_FILE = "UMIAK_PROGRESS_FILE"
STACK_FILE = "UMIAK_STACK_FILE"
STACK_SIGNAL = "UMIAK_STACK_SIGNAL"

NAMES = frozenset((PROGRESS_FILE, STACK_FILE, STACK_SIGNAL))
"""Every name that is set here, beside PYTHONPATH."""


def stack_environment(
    environ: Mapping[str, str], *, directory: str, signal_number: int, stack_file: str, progress_file: str
) -> dict[str, str]:
    """The variables of a Python worker that is watched for hanging; ``directory`` is the one with ``sitecustomize``.

    ``environ`` is the worker's environment so far: its PYTHONPATH is kept behind ours.
    """
    return {
        PYTHON_PATH: in_front(environ, directory),
        STACK_SIGNAL: str(signal_number),
        STACK_FILE: stack_file,
        PROGRESS_FILE: progress_file,
    }

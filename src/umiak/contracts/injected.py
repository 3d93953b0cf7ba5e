"""What makes a Python worker run umiak's ``sitecustomize`` before its script, and what that is to do about fleet.
A decider.

Python imports a module of that name by itself; the one in `launch/inject` is found first because its directory comes
first on PYTHONPATH. It shows where a worker hangs (`umiak.contracts.stacks`), lets ``import paddle.fluid`` find umiak's
where Paddle has none, and in jobs with parameter servers it gives the calls of ``paddle.distributed.fleet`` to
`umiak.fleet` as soon as the worker has imported paddle.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PYTHON_PATH = "PYTHONPATH"
FLEET = "UMIAK_FLEET"
FLEET_FROM = "UMIAK_FLEET_FROM"
FLUID = "UMIAK_FLUID"

NAMES = frozenset((FLEET, FLEET_FROM, FLUID))
"""Every name that is set here, beside PYTHONPATH."""


def fleet_environment(
    environ: Mapping[str, str], *, directory: str, umiak_in: Iterable[str], has_servers: bool = True
) -> dict[str, str]:
    """The variables of a worker that finds umiak's ``paddle.fluid``, and in a job with servers umiak's fleet.

    ``umiak_in`` are the directories that have the launcher's own umiak, for a worker whose Python has none.
    They are not put on its sys.path: other packages of the launcher's environment are none of its business.
    """
    places = os.pathsep.join(umiak_in)
    variables = {PYTHON_PATH: in_front(environ, directory), FLUID: "1"}
    return variables | ({FLEET: "1"} if has_servers else {}) | ({FLEET_FROM: places} if places else {})


def in_front(environ: Mapping[str, str], directory: str) -> str:
    """PYTHONPATH with this directory first, and what was there behind it."""
    path = environ.get(PYTHON_PATH, "")
    # An empty entry between two others means the working directory, so it stays.
    entries = [each for each in path.split(os.pathsep) if each != directory] if path else []
    return os.pathsep.join([directory, *entries])

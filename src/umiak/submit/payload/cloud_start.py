"""The first program in a container of a cloud: who am I, which plan is mine, and `node_start` with it. A program.

    python umiak-launcher.pyz -m umiak.submit.payload.cloud_start RUN_DIRECTORY/start.json

The cloud has brought the run's directory, the launcher and the job's files, and says by its own variables which
node this is. A cloud that knows roles tells this node's; where all nodes are alike, the first ones are the servers.
"""

from __future__ import annotations

import os
import sys

from umiak.adapters import kernel_requests, own_modules
from umiak.core.cluster import ROLES
from umiak.core.decode import Malformed
from umiak.core.problem import Exit, UmiakError
from umiak.core.value import replace
from umiak.submit.payload import cloud_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.submit.payload.cloud_plan import CloudStart, RolePlan

USAGE = "usage: python -m umiak.submit.payload.cloud_start START"
NODE_START = "umiak.submit.payload.node_start"


def seat(start: CloudStart, environ: Mapping[str, str]) -> tuple[RolePlan, dict[str, str]]:
    """The plan of the node with this environment, and the variables to add: its role, where the cloud knows none."""
    from umiak import platforms
    from umiak.platforms import native

    if len(start.roles) == 1:
        return start.roles[0], {}
    placement = platforms.detect(environ)
    if placement is None or (placement.role is None and placement.rank is None):
        hint = "was the container started by the cloud's training job, and not by hand?"
        what = "the cloud does not say which node of the job this is"
        raise UmiakError.refused("UM-SUBMIT-275", what, hint=hint)
    if placement.role is not None:
        return next(each for each in start.roles if each.role is placement.role), {}
    left = placement.rank or 0
    for each in sorted(start.roles, key=lambda each: ROLES.index(each.role)):
        if left < each.nodes:
            # Cards of a node are no number of workers here: one server or trainer to a node.
            mine = replace(placement, role=each.role, workers=None, trainer_endpoints=())
            return each, native.environment_of(mine)
        left -= each.nodes
    what = f"the cloud has started more nodes than the job has: this is number {placement.rank}"
    raise UmiakError.refused("UM-SUBMIT-275", what, hint="submit the job again")


def main(words: list[str], environ: Mapping[str, str]) -> int:
    """The command; it becomes `node_start`."""
    if not words:
        sys.stderr.write(f"{USAGE}\n")
        return Exit.BAD_REQUEST
    try:
        argv, added = prepared(words[0], environ)
        sys.stderr.flush()
        kernel_requests.become(argv, {**environ, **added})  # nothing is left to do here
    except UmiakError as error:
        for problem in error.problems:
            sys.stderr.write("".join(f"{line}\n" for line in problem.lines()))
        return error.exit_status


def prepared(path: str, environ: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command of this node and the variables that it needs in addition.
    Its secrets are where its plan looks for them.
    """
    here = os.path.dirname(os.path.abspath(path))
    try:
        with open(path, encoding="utf-8") as file:
            start = cloud_plan.from_text(file.read())
        _copy_secrets(os.path.join(here, start.secrets), start.private)
    except (OSError, UnicodeDecodeError, Malformed) as error:
        what = f"what the cloud should have brought can't be read: {getattr(error, 'filename', None) or path}"
        why = error.strerror if isinstance(error, OSError) else str(error)
        hint = "is the store of the place in the cloud's region, and may the job read it?"
        raise UmiakError.refused("UM-SUBMIT-276", what, why=why, hint=hint) from None
    mine, added = seat(start, environ)
    return (*own_modules.command(NODE_START), os.path.join(here, mine.plan)), added


def _copy_secrets(source: str, target: str) -> None:
    """What a cloud mounts or downloads has whatever mode it likes: the copy is for its owner alone."""
    with open(source, "rb") as file:
        data = file.read()
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    draft = f"{target}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as copy:
        copy.write(data)
    os.replace(draft, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))

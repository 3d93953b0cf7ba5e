"""Creates machines and sets the time of their release, in a process of its own. A program.

    python -m umiak.submit.machines.creator < order.json

BCC takes the time of release only once a machine is there. So both are done by a process that does not end with the
client: if that is killed, no machine is left without a release time. The keys are in its environment; what it is to do
comes by its standard input, and its answer is one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from umiak.adapters import own_modules
from umiak.adapters.stores import http_retry
from umiak.core.problem import UmiakError
from umiak.core.value import fields, value
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.cloud.api import GONE, CloudFailure
from umiak.submit.machines import bcc
from umiak.submit.machines.machine import Wanted
from umiak.submit.machines.settings import MachineSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.submit.machines.machine import MachinesApi

SEEN_S = 60.0
"""How long a machine that was just created may be unknown to the rest of the cloud."""


@value
class Created:
    """What came of an order."""

    ids: tuple[str, ...] = ()
    refused: str = ""
    """Why the cloud created nothing for one of the requests."""
    status: int = 0
    """Of the answer that refused."""
    unclear: str = ""
    """Why nobody knows whether machines were created."""
    unreleased: tuple[str, ...] = ()
    """Machines whose release time could not be set."""
    done: tuple[str, ...] = ()
    """The tokens of requests that were answered: obeyed, or refused."""


def ask(
    settings: MachineSettings,
    wanted: Sequence[Wanted],
    ids: Sequence[str],
    release_s: float,
    environ: Mapping[str, str],
    lock_fd: int,
) -> Created:
    """Let a process of its own create machines, and set the release time of these and of those that are there."""
    order = {
        "settings": {name: getattr(settings, name) for name in fields(settings)},
        "wanted": [{name: getattr(each, name) for name in fields(each)} for each in wanted],
        "ids": [*ids],
        "release_s": release_s,
    }
    with subprocess.Popen(
        own_modules.command("umiak.submit.machines.creator"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environ),
        text=True,
        pass_fds=(lock_fd,),  # the next command about these machines waits until this process has ended, too
        start_new_session=True,  # neither a Ctrl-C nor the end of a terminal ends it
    ) as process:
        out, _ = process.communicate(json.dumps(order))
    try:
        answer: JsonObject = json.loads(out)
        words: JsonObject = {name: tuple(each) if isinstance(each, list) else each for name, each in answer.items()}
        return Created(**words)
    except (ValueError, TypeError):
        return Created(unclear=f"the process that creates machines ended with {process.returncode}")


def main() -> int:
    """Carry out one order."""
    order = json.loads(sys.stdin.read())
    settings = MachineSettings(**order["settings"])
    wanted = [Wanted(**each) for each in order["wanted"]]
    try:
        api = bcc.connect(settings, os.environ)
        answer = carry_out(api, wanted, order["ids"], order["release_s"], settings.group)
    except UmiakError as error:  # before anything was sent
        answer = Created(refused=str(error), done=tuple(each.token for each in wanted))
    try:
        sys.stdout.write(json.dumps({name: getattr(answer, name) for name in fields(answer)}))
        sys.stdout.flush()
    except OSError:
        pass  # the client is gone; the work is done
    return 0


def carry_out(
    api: MachinesApi, wanted: Sequence[Wanted], there: Sequence[str], release_s: float, group: str
) -> Created:
    """Create, and set the release time of everything as soon as its id is known."""
    ids: list[str] = []
    done: list[str] = []
    notes: JsonObject = {}
    late = _schedule(api, there, release_s)
    for each in wanted:
        try:
            new_machine = created(api, each, group)
        except CloudFailure as error:
            if error.is_unclear:
                notes["unclear"] = str(error)
            else:
                notes |= {"refused": str(error), "status": error.status}
                done.append(each.token)
            break
        ids += new_machine
        done.append(each.token)
        late += _schedule(api, new_machine, release_s)
    return Created(ids=tuple(ids), unreleased=tuple(late), done=tuple(done), **notes)


def created(api: MachinesApi, wanted: Wanted, group: str) -> list[str]:
    """The machines of one request.
    After an unclear answer they are looked for before the request is repeated, with the same token.
    """
    doubt: CloudFailure | None = None
    failures = 0
    while True:
        ids = [machine.id for machine in sdk.with_retries(lambda: api.list(group)) if machine.run == wanted.token]
        if len(ids) >= wanted.count:
            return ids
        try:
            return list(api.create(wanted))
        except CloudFailure as error:
            if not error.is_retryable:
                # A request before this one may have got through.
                raise (CloudFailure(0, f"{doubt}; then {error}") if doubt else error) from None
            doubt = error if error.is_unclear else doubt
            failures += 1
            try:
                http_retry.wait(failures, error, first_delay_s=sdk.FIRST_DELAY_S)
            except CloudFailure:
                raise (doubt or error) from None


def _schedule(api: MachinesApi, ids: Sequence[str], release_s: float) -> list[str]:
    """Set when the cloud releases them; those for which that failed."""
    late = []
    until = time.monotonic() + SEEN_S
    for each in ids:
        while True:
            try:
                sdk.with_retries(lambda each=each: api.release_at(each, release_s))  # type: ignore[misc]
                break
            except CloudFailure as error:
                if error.status in (*GONE, 409) and time.monotonic() < until:  # not seen everywhere yet, or being made
                    time.sleep(sdk.FIRST_DELAY_S)
                    continue
                late.append(each)
                break
    return late


if __name__ == "__main__":
    sys.exit(main())

"""The job's secret: where it comes from, how long it must be, what a job without one is told. An adapter.

    read(environ)            the token that a person set, or None
    made_up(environ, name)   one for this launch, in a file that only this user can read

A token is never shown and never an argument: consoles, shell histories and lists of processes are read by others.
What is printed for the other nodes therefore names the file.
"""

from __future__ import annotations

import os

from umiak.contracts.start import REQUIRE_TOKEN, TOKEN, TOKEN_FILE
from umiak.core.problem import UmiakError
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SHORTEST = 16
"""In characters. Anyone who listens in, or pretends to be a launcher,
can try tokens on what it heard, as many as it likes.
"""
HOW = 'make one with `export UMIAK_TOKEN="$(umiak token)"` and set the same one on every node'
DIRECTORY = (".umiak", "tokens")
"""In the user's home, which the nodes of many clusters share."""
WARNING = (
    "no UMIAK_TOKEN is set: anyone who can reach this node's ports can join this job, lead it, end it, and make it look as if it "
    f"had succeeded; {HOW}. UMIAK_REQUIRE_TOKEN=1 refuses to run without one"
)


@value
class GeneratedToken:
    """A token of this launch, and the file where the other nodes find it."""

    token: bytes
    path: str
    shown: str
    """The path as a shell understands it, on nodes with another home as well."""


def read(environ: Mapping[str, str]) -> bytes | None:
    """The job's secret, from UMIAK_TOKEN or the file that UMIAK_TOKEN_FILE names."""
    # A variable need not be text: fsencode gives back the bytes that it holds.
    token = os.fsencode(environ.get(TOKEN, "")).strip()
    if token:
        return _long_enough(token, TOKEN)
    path = environ.get(TOKEN_FILE)
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            token = file.read().strip()
    except OSError as error:
        raise UmiakError.refused("UM-LAUNCH-203", f"the token file can't be read: {path}", why=error.strerror) from None
    if not token:
        raise UmiakError.of("UM-LAUNCH-204", f"the token file is empty: {path}")
    return _long_enough(token, f"{TOKEN_FILE}={path}")


def is_required(environ: Mapping[str, str]) -> bool:
    """Whether a job that others can reach must have a token: UMIAK_REQUIRE_TOKEN."""
    text = environ.get(REQUIRE_TOKEN, "").strip().lower()
    if text not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        what = f"expected a boolean, got {REQUIRE_TOKEN}={text}"
        raise UmiakError.of("UM-CLI-003", what, hint="write 1 or 0")
    return text in ("1", "true", "yes", "on")


def missing() -> UmiakError:
    """The error of a job that must have a token and has none."""
    return UmiakError.of(
        "UM-MEET-031",
        "no token, and UMIAK_REQUIRE_TOKEN says that there must be one",
        why="other machines can reach this launcher's port",
        hint=HOW,
    )


def generated_token(environ: Mapping[str, str], name: str) -> GeneratedToken:
    """A token for this launch, in a file of this name that only this user can read."""
    home = environ.get("HOME") or os.path.expanduser("~")
    directory = os.path.join(home, *DIRECTORY)
    path = os.path.join(directory, name)
    token = os.urandom(16).hex().encode()
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.write(fd, token + b"\n")
        os.close(fd)
    except OSError as error:
        raise UmiakError.refused(
            "UM-MEET-032", f"a token for the other nodes can't be written: {path}", why=error.strerror, hint=HOW
        ) from None
    return GeneratedToken(token=token, path=path, shown="/".join(("~", *DIRECTORY, name)))


def forget(made: GeneratedToken) -> None:
    """Remove the file of a token that opens nothing any more."""
    try:
        os.unlink(made.path)
    except OSError:
        pass


def _long_enough(token: bytes, where: str) -> bytes:
    length = len(os.fsdecode(token))
    if length < SHORTEST:
        raise UmiakError.of(
            "UM-MEET-030",
            f"a token of {length} characters, at least {SHORTEST} are required: {where}",
            why="a short one can be guessed from what launchers say to one another",
            hint=HOW,
        )
    return token

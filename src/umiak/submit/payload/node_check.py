"""What a node runs before anything that lies in the directory of a run:
can others change it, is the launcher what was sent? A program.

    python3 -I -S -c TEXT RUN_DIRECTORY SHA256 WORKING_DIRECTORY [TRUSTED_DIRECTORY ...] -- [SCRIPT [WORDS]]

The text comes with the job, through the scheduler, and is this module behind `umiak.adapters.ownership` (`check_text`
puts them together): in a directory that somebody else has made, nothing is run, nothing is read but the names and
owners of directories, and nothing is written. The hash comes with the job as well. Anyone who can't change the way to a
file can't exchange it after the check either, so that it may be opened again by its path. The working directory is
named if it was the user's own where the job was submitted: then it must be so here; else it is ``-``. With a script of
the run this process becomes that; without, it ends. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import sys

from umiak.adapters.ownership import first_untrusted

LAUNCHER = "umiak-launcher.pyz"
REFUSED = 3


def main(words: list[str]) -> int:
    """The command; its exit status."""
    at = words.index("--")
    (run, digest, work), trusted, rest = words[:3], words[3:at], words[at + 1 :]
    script = f"{run}/{rest[0]}" if rest else run
    problem = problem_of(run, (script, work) if work != "-" else (script,), digest, trusted)
    if problem:
        what, why, hint, code = problem
        sys.stderr.write(f"error: {os.uname().nodename}: {what} [{code}]\n  because: {why}\n  hint: {hint}\n")
        sys.stderr.flush()
        return REFUSED
    if rest:
        os.execv("/bin/sh", ["/bin/sh", script, *rest[1:]])  # noqa: S606 - checked just now
    return 0


def problem_of(run: str, others: tuple[str, ...], digest: str, trusted: list[str]) -> tuple[str, str, str, str] | None:
    """What is wrong, why, what to do about it, and the code of the error; None: nothing."""
    launcher = f"{run}/{LAUNCHER}"
    for path in (launcher, *others):
        untrusted = first_untrusted(path, allowed=trusted)
        if untrusted:
            return (
                f"others can change what would run here: {path}",
                str(untrusted),
                hint_for(untrusted.path),
                "UM-SUBMIT-350",
            )
    try:
        with open(launcher, "rb") as file:
            actual = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        hint = "is `directory` of the place on a file system that this machine shares? `ls` it there"
        return f"the run is not here: {run}", f"{launcher}: {error.strerror}", hint, "UM-SUBMIT-352"
    if actual != digest:
        why = f"its content hash is {actual}, and {digest} was sent"
        hint = f"remove it, and submit the job again: `rm {os.path.realpath(launcher)}`"
        return f"the launcher is not the one that was sent: {launcher}", why, hint, "UM-SUBMIT-351"
    return None


def hint_for(path: str) -> str:
    """What to do about somebody else's directory."""
    from shlex import quote

    return (
        f"name a directory of your own with `directory` of the place; if this one is yours, close it: `chmod go-w {quote(path)}`; if you trust "
        f'everybody who can write there: `trusted_directories = ["{path}"]` of the place'
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs the `paddlecloud` client, and gives it its keys. An adapter.

The client reads its keys from ``.paddlecli/config`` in its home. So it gets a home of its own, below umiak's state
directory, with that file in it for its owner alone: keys stand in no argument, in no variable and in no file that is
uploaded.
"""

from __future__ import annotations

import configparser
import hashlib
import io
import os
import shutil
import signal
import subprocess

from umiak.adapters import kernel_requests, private_files
from umiak.contracts.secrets import HIDDEN
from umiak.submit.backends.paddlecloud import answers
from umiak.submit.backends.paddlecloud.answers import ClientOutput
from umiak.submit.backends.paddlecloud.settings import AK, SK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.submit.backend import Secrets

PROGRAM = "paddlecloud"
OWN = (".paddlecli", "config")
PAGE, MOST_PAGES = 50, 20
ASK_S = 60.0
"""How long a question may take; a submission has files to send, and a limit of its own."""


class CloudClient:
    """The client of one person with one pair of keys."""

    def __init__(self, environ: Mapping[str, str], home: str = "") -> None:
        """``home``: empty: the person's own."""
        self._environ = dict(environ)
        if home:
            base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local")
            self._environ.setdefault("PYTHONUSERBASE", base)  # a client of `pip install --user` is there
            self._environ["HOME"] = home

    def ask(self, *words: str) -> tuple[JsonObject, str]:
        """The answer to a question about jobs, or what went wrong."""
        return answers.told(run((PROGRAM, "job", *words), self._environ, ASK_S))

    def jobs(self) -> Iterator[tuple[str, str]]:
        """Names and ids of this person's jobs, the newest first. OSError if the client can't tell."""
        for page in range(1, MOST_PAGES + 1):
            data, wrong = self.ask("list", "--type", "normal", "--page", str(page), "--size", str(PAGE), "--json")
            if wrong:
                raise OSError(wrong)
            jobs = answers.jobs(data)
            yield from jobs
            if len(jobs) < PAGE:
                return

    def find(self, name: str) -> str:
        """The id of the job with this name, or nothing."""
        return next((job_id for each, job_id in self.jobs() if each == name), "")


def run(argv: Sequence[str], environ: Mapping[str, str], within_s: float, directory: str | None = None) -> ClientOutput:
    """How a program ended, and what it said. One that takes too long is killed with all that it started.

    It is killed with this process, too: a client that goes on alone could submit what somebody else submits again.
    """

    def in_child() -> None:
        kernel_requests.ask_for_death_signal(signal.SIGKILL)

    try:
        started = subprocess.Popen(
            argv,
            cwd=directory,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=in_child,  # noqa: PLW1509 - this process has one thread
        )
    except FileNotFoundError:
        return ClientOutput(status=127, out="", err=f"{argv[0]}: not found")
    try:
        out, err = started.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        out, err = started.communicate()
        return ClientOutput(status=None, out=out, err=err)
    except BaseException:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        raise
    return ClientOutput(status=started.returncode, out=out, err=err)


def is_installed(environ: Mapping[str, str]) -> bool:
    """Whether there is a client on PATH."""
    return shutil.which(PROGRAM, path=environ.get("PATH")) is not None


def has_own_keys(environ: Mapping[str, str]) -> bool:
    """Whether the person has given keys to the client."""
    return _read(_own(environ)).has_option("token", "user_sk")


def home_of(state_directory: str, secrets: Mapping[str, str]) -> str:
    """The home for a pair of keys; empty where there is none: then the person's own is used."""
    if not (secrets.get(AK) and secrets.get(SK)):
        return ""
    digest = hashlib.sha256(f"{secrets[AK]}\n{secrets[SK]}".encode()).hexdigest()[:16]
    return os.path.join(state_directory, "paddlecloud", f"home-{digest}")


def prepare_home(home: str, secrets: Secrets, environ: Mapping[str, str]) -> None:
    """Write the keys, for their owner alone. Which server is used the person's own file says, if it does."""
    own = _read(_own(environ))
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    if own.has_section("server"):
        parser["server"] = dict(own["server"])
    parser["token"] = {"token_name": "umiak", "user_ak": secrets[AK], "user_sk": secrets[SK]}
    text = io.StringIO()
    parser.write(text)
    directory = os.path.join(home, OWN[0])
    private_files.make_directory(home)
    private_files.make_directory(directory)
    private_files.write(os.path.join(directory, OWN[1]), text.getvalue())


def covered(text: str, secrets: Mapping[str, str]) -> str:
    """What the client said, without the secrets that it was given."""
    for secret in secrets.values():
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    return text


def _own(environ: Mapping[str, str]) -> str:
    return os.path.join(environ.get("HOME") or os.path.expanduser("~"), *OWN)


def _read(path: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return configparser.RawConfigParser()
    return parser

"""Commands and files on all hosts of a place: what people otherwise do with a loop around ssh and scp. An adapter.

Output comes line by line with the host's name, as it is written.
A host that fails does not keep the others from going on.
"""

from __future__ import annotations

import asyncio
import os

from umiak.core.problem import Problem
from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.submit.backends.ssh.connections import HostFailure, lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import PurePath

    import asyncssh

    from umiak.submit.backends.ssh.connections import Connections
    from umiak.submit.backends.ssh.settings import SshHost

LONGEST_LINE = 1 << 20
SKIPPED = "UM-SUBMIT-375"
NAMED = 20
"""How many files a message names."""


@value
class HostResult:
    """How it went on one host."""

    host: SshHost
    exit_code: int | None = None
    """None: it was not run, or is still running."""
    problem: Problem | None = None

    @property
    def is_good(self) -> bool:
        return self.problem is None and self.exit_code == 0


def run(
    connections: Connections,
    hosts: Sequence[SshHost],
    command: str,
    tell: Callable[[SshHost, str, bool], None],
    timeout_s: float | None = None,
) -> list[HostResult]:
    """A shell command on each host. ``tell``: host, line, whether it came from standard error;
    called in another thread.
    """

    async def one(host: SshHost) -> int:
        import asyncssh

        connection = await connections.connection(host)
        try:
            process = await connection.create_process(
                command, stdin=asyncssh.DEVNULL, encoding="utf-8", errors="replace"
            )
            streams = [
                _lines(process.stdout, lambda line: tell(host, line, False)),
                _lines(process.stderr, lambda line: tell(host, line, True)),
            ]
            await asyncio.wait_for(asyncio.gather(*streams), timeout_s)
            await process.wait_closed()
        except asyncio.TimeoutError:
            process.close()
            what = f"{host.label}: the command did not end within {timeout_s:g} s"
            hint = "it was told to end by closing its connection; --timeout allows more time"
            raise HostFailure(host, Problem(code="UM-SUBMIT-118", what=what, hint=hint)) from None
        except (OSError, asyncssh.Error) as error:
            raise lost(host, error) from None
        status = process.returncode
        if status is None:
            raise lost(host, ConnectionResetError("it ended before the command did"))
        return status if status >= 0 else 128 - status

    return _results(connections, hosts, one)


async def _lines(stream: object, tell: Callable[[str], None]) -> None:
    rest = ""
    while data := await stream.read(1 << 16):  # type: ignore[attr-defined]
        *whole, rest = (rest + data).split("\n")
        for line in whole:
            tell(line)
        if len(rest) > LONGEST_LINE:
            tell(rest)
            rest = ""
    if rest:
        tell(rest)


def put(connections: Connections, hosts: Sequence[SshHost], source: str, target: str) -> list[HostResult]:
    """A file or directory to the same path on each host."""

    async def one(host: SshHost) -> int:
        connection = await connections.connection(host)
        async with connection.start_sftp_client() as sftp:
            await sftp.put(source, target, recurse=True, preserve=True)
        return 0

    return _results(connections, hosts, _with_files(one, target))


def get(connections: Connections, hosts: Sequence[SshHost], source: str, target: str) -> list[HostResult]:
    """A file or directory of each host into a directory of its own below ``target``.
    What a host does not give is left out, and told when the rest is there.
    """

    async def one(host: SshHost) -> int:
        connection = await connections.connection(host)
        own = os.path.join(target, host.directory_name)
        os.makedirs(own, exist_ok=True)
        skipped = _Skipped()
        async with connection.start_sftp_client() as sftp:
            skipped.leave_out_special_files(sftp)
            await sftp.get(source, own, recurse=True, preserve=True, error_handler=skipped.add)
        if skipped.files:
            raise HostFailure(host, skipped.problem(host))
        return 0

    return _results(connections, hosts, _with_files(one, source))


class _Skipped:
    """Files that a host does not give."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def leave_out_special_files(self, sftp: asyncssh.SFTPClient) -> None:
        """Pipes, sockets and devices in directories: to open one may wait for ever."""
        import asyncssh

        files = (asyncssh.FILEXFER_TYPE_REGULAR, asyncssh.FILEXFER_TYPE_DIRECTORY, asyncssh.FILEXFER_TYPE_SYMLINK)
        scan = sftp.scandir

        async def files_only(path: str | bytes | PurePath) -> AsyncIterator[asyncssh.SFTPName]:
            async for entry in scan(path):
                if entry.attrs.type in files:
                    yield entry
                else:
                    self._leave_out(os.path.join(_text(path), _text(entry.filename)), "not a file")

        sftp.scandir = files_only  # type: ignore[method-assign, assignment]  # the one way into how it walks

    def add(self, error: Exception) -> None:
        """One that may not be read, is gone meanwhile, or is a link that leads out.
        Other errors are raised: a connection that broke, a disk that is full here.
        """
        import asyncssh

        ends = (asyncssh.SFTPNoConnection, asyncssh.SFTPConnectionLost)
        if not isinstance(error, asyncssh.SFTPError) or isinstance(error, ends):
            raise error
        self._leave_out(_text(getattr(error, "srcpath", b"")), error.reason)

    def _leave_out(self, name: str, why: str) -> None:
        self.files.append(f"{one_line(name)} ({one_line(why, 100)})")

    def problem(self, host: SshHost) -> Problem:
        count = "1 file was" if len(self.files) == 1 else f"{len(self.files)} files were"
        more = f" and {len(self.files) - NAMED} more" if len(self.files) > NAMED else ""
        return Problem(
            code=SKIPPED,
            what=f"{host.label}: {count} skipped: {', '.join(self.files[:NAMED])}{more}",
            why="the host does not give them to this user; everything else was copied",
            hint="look at their owner and rights there: `umiak hosts run -- ls -l PATH`",
        )


def _text(path: str | bytes | PurePath | None) -> str:
    return path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else str(path)


def _with_files(one: Callable[[SshHost], Awaitable[int]], path: str) -> Callable[[SshHost], Awaitable[int]]:
    """What goes wrong with files, as problems."""

    async def done(host: SshHost) -> int:
        import asyncssh

        try:
            return await one(host)
        except asyncssh.SFTPError as error:
            what = f"{host.label}: {path}: {error.reason}"
            raise HostFailure(
                host, Problem(code="UM-SUBMIT-119", what=what, hint="look at the paths and rights there")
            ) from None
        except asyncssh.Error as error:
            raise lost(host, error) from None
        except OSError as error:
            what = f"{host.label}: {error.strerror or error}: {error.filename or ''}".rstrip(": ")
            raise HostFailure(host, Problem(code="UM-SUBMIT-119", what=what)) from None

    return done


def _results(
    connections: Connections, hosts: Sequence[SshHost], one: Callable[[SshHost], Awaitable[int]]
) -> list[HostResult]:
    answers = connections.each(hosts, one)
    return [
        HostResult(host=host, problem=answer.problem)
        if isinstance(answer, HostFailure)
        else HostResult(host=host, exit_code=answer)
        for host, answer in zip(hosts, answers, strict=True)
    ]

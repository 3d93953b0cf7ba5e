"""Connections to all hosts of a place at once, and the agents at their other ends. An adapter, with asyncssh.

    with Connections(settings, environ, launcher) as all_hosts:
        answers = all_hosts.ask(hosts, lambda host: {"do": "status", "run": "ctr-3f2a9c", "host": host.directory_name})

One thread runs asyncssh; callers wait. Each host has one connection, which is kept, and one agent for questions; logs
are followed through an agent of their own. What goes wrong with a host is a `HostFailure`, and never hides the answers
of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import tempfile
import threading

from umiak.adapters import trusted_files
from umiak.core.problem import DISK_FULL, Exit, Problem, UmiakError
from umiak.core.shown import one_line
from umiak.submit.backends.ssh import bootstrap, keys, settings
from umiak.submit.backends.ssh.checks import disk_full
from umiak.submit.backends.ssh.early_sockets import EarlySockets
from umiak.submit.node import own_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from typing import Any, TypeVar

    import asyncssh

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.backends.ssh.settings import SshHost, SshSettings
    from umiak.submit.payload.launcher_file import LauncherFile

    T = TypeVar("T")

KEEPALIVE_S = 5
ANSWER_S = 150.0
"""An agent that says nothing for so long has failed; it may be importing a framework."""
BLOCK = 1 << 18
LONGEST_ANSWER = 1 << 28
NOT_FOUND, NOT_EXECUTABLE = 127, 126
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts",)


class HostFailure(Exception):
    """A host does not do what it was asked, for a reason that a person can see to."""

    def __init__(self, host: SshHost, problem: Problem, *, is_unreachable: bool = False, is_sent: bool = False) -> None:
        super().__init__(problem.what)
        self.host = host
        self.problem = problem
        self.is_unreachable = is_unreachable
        """Whether it may be reached later."""
        self.is_sent = is_sent
        """Whether it may have done it all the same: the answer got lost."""


class AgentLink:
    """One agent on one host: a question, an answer."""

    def __init__(self, host: SshHost, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.host = host
        self._process = process
        self._lock = asyncio.Lock()
        self.first_answer: JsonObject | None = None
        """To the question with which it began."""

    async def ask(self, question: JsonMapping, payload: bytes | None = None, *, timeout_s: float = ANSWER_S) -> Any:
        """An answer; `HostFailure` if the host refused or is gone."""
        async with self._lock:
            try:
                await self.send(question, payload)
                answer = await asyncio.wait_for(self.answer(), timeout_s)
            except broken() as error:
                raise lost(self.host, error) from None
        if "error" in answer:
            raise refused(self.host, answer)
        return answer

    async def send(self, question: JsonMapping, payload: bytes | None = None) -> None:
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        for start in range(0, len(payload or b""), BLOCK):
            self._process.stdin.write((payload or b"")[start : start + BLOCK])
            await self._process.stdin.drain()

    async def answer(self) -> JsonObject:
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError(await self.last_words())
        data: JsonObject = json.loads(line)
        return data

    async def begin(
        self,
        place: SshSettings,
        launcher: LauncherFile,
        read: Callable[[], bytes],
        question: JsonMapping | None = None,
    ) -> None:
        """Bring the launcher to the host if it is not there, and wait for the answer to a first question."""
        first = json.dumps(question) if question is not None else ""
        about = bootstrap.first_line(launcher.sha256, launcher.size_bytes, place.directory, place.trusted_directories)
        with contextlib.suppress(OSError):  # it may have ended already, and has then said why
            self._process.stdin.write(f"{about}\n{first}\n".encode())
        line = await self._process.stdout.readline()
        if not line:
            raise await self._no_python()
        try:
            greeting = json.loads(line)
        except ValueError:
            text = one_line(line.decode(errors="replace"), 200)
            why = f"its shell prints to standard output before commands run: {text}"
            hint = f"let ~/.bashrc (or the like) of {self.host.label} be silent when the shell is not interactive"
            what = f"{self.host.label}: can't be talked to"
            raise HostFailure(self.host, Problem(code="UM-SUBMIT-113", what=what, why=why, hint=hint)) from None
        if "old" in greeting:
            raise HostFailure(self.host, no_python(self.host, f"Python {greeting['old']} is too old"))
        if greeting.get("needs_launcher"):
            data = read()
            for start in range(0, len(data), BLOCK):
                self._process.stdin.write(data[start : start + BLOCK])
                await self._process.stdin.drain()
            greeting = await self.answer()
        if "error" in greeting:
            raise refused(self.host, greeting)
        if question is not None:
            self.first_answer = await self.answer()

    async def _no_python(self) -> HostFailure:
        last_words = await self.last_words()
        status = self._process.exit_status
        if status in (NOT_FOUND, NOT_EXECUTABLE) or "not found" in last_words or "No such file" in last_words:
            return HostFailure(self.host, no_python(self.host, last_words or "the command was not found"))
        why = last_words or f"the agent ended with exit status {status}"
        what = f"{self.host.label}: commands can't be run there"
        return HostFailure(self.host, Problem(code="UM-SUBMIT-113", what=what, why=why))

    async def last_words(self) -> str:
        """What the agent wrote to standard error before it ended."""
        try:
            await asyncio.wait_for(self._process.wait_closed(), 5)
            data = await asyncio.wait_for(self._process.stderr.read(), 5)
        except broken():
            return ""
        lines = data.decode(errors="replace").strip().splitlines()
        return one_line(lines[-1], 300) if lines else ""

    async def read(self, most: int) -> bytes:
        """What comes next of an agent that has become another program; empty at its end."""
        return await self._process.stdout.read(most)

    async def write(self, data: bytes) -> None:
        """To such a program; waits while it does not take it."""
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    def close(self) -> None:
        self._process.close()


class Connections:
    """All hosts of a place."""

    def __init__(self, said: SshSettings, environ: Mapping[str, str], launcher: Callable[[], LauncherFile]) -> None:
        self._settings = said
        self._environ = environ
        self._find_launcher = launcher
        self._launcher: LauncherFile | None = None
        self._launcher_data = b""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()
        self._opened: dict[str, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._agents: dict[str, asyncio.Task[AgentLink]] = {}
        self._gate = asyncio.Semaphore(said.parallel)
        self._early = EarlySockets(self._loop)
        self._options: dict[str, object] | None = None
        self._config_text = ""
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        """For the parts of the ssh config."""
        self._known_hosts: dict[str, asyncssh.SSHKnownHosts] = {}
        """By path: each file is read once."""

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections. What was started on the hosts goes on."""
        if self._thread.is_alive():
            with contextlib.suppress(Exception):
                self.run(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
            self._loop.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work in the other thread."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Let work go on in the other thread; what is returned ends it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.cancel

    def each(self, hosts: Sequence[SshHost], work: Callable[[SshHost], Awaitable[T]]) -> list[T | HostFailure]:
        """The same on several hosts at once, as many as the place allows."""
        self._prepare(hosts)
        return self.run(self._each(hosts, work))

    def ask(
        self, hosts: Sequence[SshHost], question: Callable[[SshHost], JsonMapping], *, timeout_s: float = ANSWER_S
    ) -> list[Any]:
        """The answer of each host's agent, or a `HostFailure`."""

        return self.each(hosts, lambda host: self.asked(host, question(host), timeout_s=timeout_s))

    async def asked(self, host: SshHost, question: JsonMapping, *, timeout_s: float = ANSWER_S) -> Any:
        """The answer of a host's agent. If there is no agent yet, it begins with this question."""
        if host.label in self._agents:
            return await (await self.agent(host)).ask(question, timeout_s=timeout_s)
        link = await _shared(self._agents, host.label, lambda: self.fresh_agent(host, question, timeout_s))
        answer, link.first_answer = link.first_answer, None
        assert answer is not None
        if "error" in answer:
            raise refused(host, answer)
        return answer

    async def _each(self, hosts: Sequence[SshHost], work: Callable[[SshHost], Awaitable[T]]) -> list[T | HostFailure]:
        async def one(host: SshHost) -> T | HostFailure:
            async with self._gate:
                try:
                    return await work(host)
                except HostFailure as failure:
                    self.forget(host)
                    return failure

        return await asyncio.gather(*(one(host) for host in hosts))

    # ---- opening

    async def agent(self, host: SshHost) -> AgentLink:
        """The agent for questions."""
        return await _shared(self._agents, host.label, lambda: self.fresh_agent(host))

    async def fresh_agent(
        self, host: SshHost, question: JsonMapping | None = None, timeout_s: float = ANSWER_S
    ) -> AgentLink:
        """Another agent on the same connection, for something that takes long;
        with a question it has an answer when it is there.
        """
        connection = await self.connection(host)
        assert self._launcher is not None
        try:
            process = await connection.create_process(bootstrap.command(self._settings.python), encoding=None)
            link = AgentLink(host, process)
            begun = link.begin(self._settings, self._launcher, self._read_launcher, question)
            await asyncio.wait_for(begun, max(ANSWER_S, timeout_s))
        except broken() as error:
            raise lost(host, error) from None
        return link

    async def connection(self, host: SshHost) -> asyncssh.SSHClientConnection:
        """The connection to a host."""
        return await _shared(self._opened, host.label, lambda: self._connect(host))

    def forget(self, host: SshHost) -> None:
        """After a failure: the next question opens a new connection."""
        agent = self._agents.pop(host.label, None)
        if agent and agent.done() and not agent.cancelled() and not agent.exception():
            agent.result().close()
        opened = self._opened.pop(host.label, None)
        if opened and opened.done() and not opened.cancelled() and not opened.exception():
            opened.result().abort()

    def prepare(self) -> None:
        """What must not happen in the other thread: imports, and building the launcher."""
        self._prepare()

    def _prepare(self, hosts: Sequence[SshHost] = ()) -> None:
        if self._options is None:
            if self._settings.access.config:
                with open(self._settings.access.config, encoding="utf-8") as file:
                    self._config_text = file.read()
            soon = hosts[: self._settings.parallel]
            ways = {host.label: settings.tcp_address(host, self._config_text) for host in soon}
            self._early.open({label: way for label, way in ways.items() if way})
            self._options = self._made_options()
        if self._launcher is None:
            self._launcher = self._find_launcher()

    def _made_options(self) -> dict[str, object]:
        asked = self._settings.access
        options: dict[str, object] = {}
        import_asyncssh()
        for variable, option in ((asked.password_from, "password"), (asked.passphrase_from, "passphrase")):
            if variable:
                options[option] = self._environ.get(variable) or None
        if asked.key:
            options["client_keys"] = [os.path.expanduser(asked.key)]
        if asked.config:
            self._scratch = tempfile.TemporaryDirectory(prefix="umiak-")
        options["agent_path"] = self._environ.get("SSH_AUTH_SOCK") or None
        return options

    def _read_launcher(self) -> bytes:
        if not self._launcher_data:
            assert self._launcher is not None
            with open(self._launcher.path, "rb") as file:
                self._launcher_data = file.read()
        return self._launcher_data

    async def _connect(self, host: SshHost) -> asyncssh.SSHClientConnection:
        import asyncssh

        options = {**(self._options or {}), "config": self._config(host), "known_hosts": self._known(host)}
        if host.user:
            options["username"] = host.user
        if host.port is not None:
            options["port"] = host.port

        async def connected() -> asyncssh.SSHClientConnection:
            return await asyncssh.connect(
                host.host,
                **options,
                sock=await self._early.take(host.label),
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=3,
                login_timeout=0,
                gss_host=None,
                x509_trusted_certs=None,
            )

        try:
            return await asyncio.wait_for(connected(), self._settings.access.connect_timeout_s)
        except asyncssh.HostKeyNotVerifiable as error:
            raise HostFailure(host, self._host_key(host, str(error))) from None
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise HostFailure(host, keys.unusable(self._settings, str(error))) from None
        except asyncssh.PermissionDenied as error:
            raise HostFailure(host, self._denied(host, str(error))) from None
        except (OSError, asyncio.TimeoutError, asyncssh.Error) as error:
            raise unreachable(host, error, self._settings.access.connect_timeout_s) from None
        except ValueError as error:
            what = f"{host.label}: the ssh config can't be read: {self._settings.access.config}"
            raise HostFailure(host, Problem(code="UM-SUBMIT-100", what=what, why=str(error))) from None

    def _config(self, host: SshHost) -> list[str]:
        """The ssh config, or what it says about this host: 64 hosts must not read all entries of all."""
        if not self._config_text or self._scratch is None:
            return []
        own = settings.config_for(host.host, self._config_text)
        if own is None:
            return [self._settings.access.config]
        path = os.path.join(self._scratch.name, host.directory_name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(own)
        return [path]

    def _known(self, host: SshHost) -> asyncssh.SSHKnownHosts:
        """The host keys that are known. None would mean that none is checked, and never comes from here."""
        import asyncssh

        file, _, _ = self._known_as(host)
        if file not in self._known_hosts:
            if os.path.exists(file) and (wrong := trusted_files.problem(file, self._environ)):
                raise HostFailure(host, wrong)
            there = [each for each in (file, *GLOBAL_KNOWN_HOSTS) if os.path.exists(each)]
            self._known_hosts[file] = asyncssh.read_known_hosts(there) if there else asyncssh.import_known_hosts("")
        return self._known_hosts[file]

    def _denied(self, host: SshHost, why: str) -> Problem:
        user = f"{host.user}@" if host.user else ""
        config = settings.config_of(host.host, self._config_text)
        if name := keys.locked_key(self._settings, config.get("identityfile", "")):
            return keys.locked(name)
        return Problem(
            code="UM-SUBMIT-103",
            what=f"{host.label}: login refused",
            why="; ".join([one_line(why, 200), *keys.passed_over(self._settings, self._environ)]),
            hint=f"try `ssh {user}{host.host}`; name the key (`key`), load it into the agent (`ssh-add`), "
            "or name the variable with the password (`password_from`)",
        )

    def _host_key(self, host: SshHost, why: str) -> Problem:
        """Unknown or changed: that is a difference."""
        import asyncssh

        file, name, port = self._known_as(host)
        known: Sequence[object] = ()
        with contextlib.suppress(OSError, ValueError):
            known = asyncssh.read_known_hosts(file).match(host.address or host.host, "", port)[0]
        user = f"{host.user}@" if host.user else ""
        to_port = f" -p {port}" if port else ""
        if known:
            return Problem(
                code="UM-SUBMIT-105",
                what=f"{host.label}: the host key has changed",
                why=f"{file} has another one: the host was installed again, or somebody pretends to be it",
                hint=f"ask its administrator; then remove the old one with `ssh-keygen -f {file} -R '{name}'` and accept "
                f"the new one with `ssh{to_port} {user}{host.host}`",
            )
        return Problem(
            code="UM-SUBMIT-104",
            what=f"{host.label}: the host key is not known",
            why=one_line(why, 200),
            hint=f"`ssh{to_port} {user}{host.host}` shows its fingerprint and asks whether to accept it; it is looked for in {file}",
        )

    def _known_as(self, host: SshHost) -> tuple[str, str, int | None]:
        """The file of host keys, the name of a host in it, and its port if that is not 22."""
        config = settings.config_of(host.host, self._config_text)
        known = (
            self._settings.access.known_hosts
            or config.get("userknownhostsfile", "").partition(" ")[0]
            or "~/.ssh/known_hosts"
        )
        text = config.get("port", "")
        port = host.port or (int(text) if text.isdecimal() else 22)
        name = config.get("hostname", host.host)
        return os.path.expanduser(known), name if port == 22 else f"[{name}]:{port}", None if port == 22 else port

    async def _close(self) -> None:
        self._early.close()
        opened = [
            each for each in self._opened.values() if each.done() and not each.cancelled() and not each.exception()
        ]
        for each in opened:
            each.result().close()
        if opened:
            await asyncio.wait([asyncio.ensure_future(each.result().wait_closed()) for each in opened], timeout=1)
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()


async def _shared(tasks: dict[str, asyncio.Task[T]], name: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The one result that all who ask get; a failure is forgotten, so that the next one tries again."""
    if name not in tasks:
        tasks[name] = asyncio.ensure_future(make())
    task = tasks[name]
    try:
        return await asyncio.shield(task)
    except HostFailure:
        if tasks.get(name) is task:
            del tasks[name]
        raise


def import_asyncssh() -> None:
    """Half a second, so only where hosts are talked to."""
    try:
        __import__("asyncssh")
    except ImportError:
        raise UmiakError(keys.no_asyncssh(), exit_status=Exit.REFUSED) from None


def broken() -> tuple[type[Exception], ...]:
    """What is raised when a connection breaks."""
    import asyncssh

    return OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncssh.Error


def unreachable(host: SshHost, error: Exception, timeout_s: float) -> HostFailure:
    """A connection that did not come about."""
    if isinstance(error, ConnectionRefusedError):
        problem = Problem(
            code="UM-SUBMIT-102",
            what=f"{host.label}: connection refused",
            why="nothing listens at its ssh port",
            hint=f"is sshd running there, at this port? try `ssh -v {_words(host)}`",
        )
    else:
        why = str(error) or type(error).__name__
        if isinstance(error, asyncio.TimeoutError):
            why = f"no answer within {timeout_s:g} s"
        elif isinstance(error, socket.gaierror):
            why = "its name can't be resolved"
        elif isinstance(error, OSError) and error.strerror:
            why = error.strerror
        problem = Problem(
            code="UM-SUBMIT-101",
            what=f"{host.label}: unreachable",
            why=one_line(why, 200),
            hint=f"try `ssh -v {_words(host)}`; is the host up, and its name right?",
        )
    return HostFailure(host, problem, is_unreachable=True)


def _words(host: SshHost) -> str:
    """For a command of ssh."""
    port = f"-p {host.port} " if host.port else ""
    return f"{port}{host.user}@{host.host}" if host.user else f"{port}{host.host}"


def lost(host: SshHost, error: Exception) -> HostFailure:
    """A connection that broke."""
    why = f"no answer within {ANSWER_S:g} s" if isinstance(error, asyncio.TimeoutError) else str(error)
    problem = Problem(
        code="UM-SUBMIT-101",
        what=f"{host.label}: the connection was lost",
        why=one_line(why or type(error).__name__, 200),
        hint=f"is the host still up? try `ssh {_words(host)}`",
    )
    return HostFailure(host, problem, is_unreachable=True, is_sent=True)


def refused(host: SshHost, answer: JsonMapping) -> HostFailure:
    """An error that the host reported."""
    import errno

    shown, why = one_line(str(answer["error"]), 300), str(answer.get("why") or "")
    if "path" in answer:
        at = one_line(str(answer["path"]), 300)
        problem = own_directory.problem_of(shown, one_line(why, 300), at, f"{host.label}: ")
    elif answer.get("errno") in DISK_FULL:
        problem = disk_full(host, shown, why)
    elif answer.get("errno") in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT):
        problem = Problem(
            code="UM-SUBMIT-109",
            what=f"{host.label}: can't be written: {shown}",
            why=why,
            hint='name a directory that you may write to in the place: `directory = "..."`',
        )
    else:
        problem = Problem(
            code=str(answer.get("code") or "UM-SUBMIT-113"),
            what=f"{host.label}: {shown}",
            why=why or None,
            hint=answer.get("hint") or None,
        )
    return HostFailure(host, problem)


def no_python(host: SshHost, why: str) -> Problem:
    """Of a host whose Python can't run the launcher."""
    return Problem(
        code="UM-SUBMIT-106",
        what=f"{host.label}: no Python 3.10 or newer",
        why=why,
        hint='install it there, or name one in the place: `python = "/opt/python3.11/bin/python3"`',
    )

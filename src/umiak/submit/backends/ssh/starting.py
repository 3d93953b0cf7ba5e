"""Starts a job on all hosts at once, or on none: first every host is made ready, then all begin. An adapter."""

from __future__ import annotations

import os

from umiak.contracts.start import TOKEN
from umiak.core.problem import Exit, UmiakError
from umiak.submit.backend import AnswerLost
from umiak.submit.backends.ssh.connections import HostFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.backends.ssh.connections import Connections
    from umiak.submit.backends.ssh.plan import HostPlan
    from umiak.submit.backends.ssh.settings import SshHost
    from umiak.submit.payload.file_manifest import FoundFiles

CANCEL_MARGIN_S = 60.0


class JobStart:
    """The start of one run."""

    def __init__(self, connections: Connections, place: str, run_id: str) -> None:
        self._connections = connections
        self._place = place
        self._run_id = run_id

    def send_files(self, hosts: Sequence[SshHost], found: FoundFiles) -> None:
        """Bring the job's files to hosts that lack them. UmiakError if that can't be done: nothing is started then."""
        data = FilesArchive(found).data()

        async def one(host: SshHost) -> Any:
            link = await self._connections.agent(host)
            return await link.ask({"do": "files", "digest": found.manifest.digest, "size_bytes": len(data)}, data)

        answers = self._connections.each(hosts, one)
        UmiakError.raise_any([each.problem for each in answers if isinstance(each, HostFailure)], Exit.REFUSED)

    def hold(self, plans: Sequence[HostPlan], secrets: Mapping[str, str]) -> list[JsonObject]:
        """Make every host ready to go; their answers.
        UmiakError if one can't be made ready: nothing is started then.
        """
        by_label = {each.host.label: each for each in plans}

        def question(host: SshHost) -> JsonMapping:
            own = by_label[host.label]
            return {
                "do": "hold",
                "run": self._run_id,
                "host": host.directory_name,
                "plan": own.plan.to_plain(),
                "texts": own.texts,
                "secrets": secrets,
                "token": secrets[TOKEN],
            }

        hosts = [each.host for each in plans]
        answers = self._connections.ask(hosts, question)
        failures = [each for each in answers if isinstance(each, HostFailure)]
        if not failures:
            return answers
        good = [host for host, answer in zip(hosts, answers, strict=True) if not isinstance(answer, HostFailure)]
        self._connections.ask(good, lambda _: {"do": "drop"})
        if any(not isinstance(each, HostFailure) and each["is_started"] for each in answers):
            # Of a submission that is repeated: it must be completed later.
            raise AnswerLost(self._place, _reasons(failures))
        raise UmiakError(*[each.problem for each in failures], exit_status=Exit.REFUSED)

    def go(self, hosts: Sequence[SshHost]) -> None:
        """Let the job begin on all hosts that were made ready. AnswerLost if nobody knows whether one did."""
        answers = self._connections.ask(hosts, lambda _: {"do": "go"})
        failures = [each for each in answers if isinstance(each, HostFailure)]
        if not failures:
            return
        if any(each.is_sent for each in failures):
            raise AnswerLost(self._place, _reasons(failures))
        # Some have refused: the others must not wait for them.
        started = [host for host, answer in zip(hosts, answers, strict=True) if not isinstance(answer, HostFailure)]
        cancel(self._connections, started, self._run_id, 0.0)
        raise UmiakError(*[each.problem for each in failures], exit_status=Exit.REFUSED)


def _reasons(failures: Sequence[HostFailure]) -> str:
    return "; ".join(f"{each.problem.what}: {each.problem.why}" for each in failures)


def cancel(connections: Connections, hosts: Sequence[SshHost], run_id: str, grace_s: float) -> list[HostFailure]:
    """End a run on these hosts; those that can't be reached."""
    answers = connections.ask(
        hosts,
        lambda host: {"do": "cancel", "run": run_id, "host": host.directory_name, "grace_s": grace_s},
        timeout_s=grace_s + CANCEL_MARGIN_S,
    )
    return [each for each in answers if isinstance(each, HostFailure)]


class FilesArchive:
    """The job's files as one archive, packed when the first host wants it."""

    def __init__(self, found: FoundFiles | None) -> None:
        self._found = found
        self._data = b""

    def data(self) -> bytes:
        if not self._data:
            import tempfile

            from umiak.submit.payload import file_set

            assert self._found is not None
            with tempfile.TemporaryDirectory(prefix="umiak-") as directory:
                target = os.path.join(directory, "files.tar.gz")
                file_set.pack(self._found, target)
                with open(target, "rb") as file:
                    self._data = file.read()
        return self._data

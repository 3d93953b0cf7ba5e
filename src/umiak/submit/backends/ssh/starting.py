"""Starts a job on all hosts at once, or on none: first every host is made ready, then all begin. An adapter."""

from __future__ import annotations

import os

from umiak.contracts.start import TOKEN
from umiak.core.problem import Exit, UmiakError
from umiak.submit.backend import AnswerLost
from umiak.submit.backends.ssh.connections import HostFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from umiak.core.job import Job
    from umiak.submit.backends.ssh.connections import Connections
    from umiak.submit.backends.ssh.plan import HostPlan
    from umiak.submit.backends.ssh.settings import SshHost
    from umiak.submit.payload.file_set import FoundFiles

CANCEL_MARGIN_S = 60.0


class JobStart:
    """The start of one run."""

    def __init__(self, connections: Connections, place: str, run_id: str) -> None:
        self._connections = connections
        self._place = place
        self._run_id = run_id

    def prepare(self, job: Job, plans: Sequence[HostPlan], found: FoundFiles | None) -> list[dict[str, Any]]:
        """Bring every host what it lacks; their answers. UmiakError if one can't be made ready: nothing is started then."""
        archive = FilesArchive(found)
        first = plans[0].host
        wants_devices = not job.mode.has_servers and not (job.roles[0].workers or job.roles[0].resource.devices)

        async def one(host: SshHost) -> dict[str, Any]:
            link = await self._connections.agent(host)
            answer: dict[str, Any] = await link.ask(
                {
                    "do": "prepare",
                    "run": self._run_id,
                    "host": host.directory_name,
                    "files": found.manifest.digest if found else "",
                    "wants_port": host is first and len(plans) + len(plans[0].plan.launchers) > 2,
                    "wants_devices": wants_devices,
                    "env": dict(job.environment_of(job.roles[0])),
                }
            )
            if answer["needs_files"]:
                assert found is not None
                data = archive.data()
                await link.ask({"do": "files", "digest": found.manifest.digest, "size_bytes": len(data)}, data)
            return answer

        answers = self._connections.each([each.host for each in plans], one)
        failures = [each for each in answers if isinstance(each, HostFailure)]
        is_begun = any(not isinstance(each, HostFailure) and each["is_started"] for each in answers)
        if failures and is_begun:  # of a submission that is repeated: it must be completed later
            raise AnswerLost(self._place, "; ".join(f"{each.problem.what}: {each.problem.why}" for each in failures))
        if failures:
            raise UmiakError(*[each.problem for each in failures], exit_status=Exit.REFUSED)
        return [each for each in answers if not isinstance(each, HostFailure)]

    def begin(self, plans: Sequence[HostPlan], ready: Sequence[dict[str, Any]], secrets: dict[str, str]) -> None:
        """Start on all hosts that have not started before. AnswerLost if nobody knows whether one did."""
        by_label = {
            each.host.label: each for each, answer in zip(plans, ready, strict=True) if not answer["is_started"]
        }

        async def one(host: SshHost) -> Any:
            own = by_label[host.label]
            question = {
                "do": "start",
                "run": self._run_id,
                "host": host.directory_name,
                "plan": own.plan.to_plain(),
                "texts": own.texts,
                "secrets": secrets,
                "token": secrets[TOKEN],
            }
            return await (await self._connections.agent(host)).ask(question)

        hosts = [each.host for each in by_label.values()]
        answers = self._connections.each(hosts, one)
        failures = [each for each in answers if isinstance(each, HostFailure)]
        if not failures:
            return
        if any(each.is_sent for each in failures):
            raise AnswerLost(self._place, "; ".join(f"{each.problem.what}: {each.problem.why}" for each in failures))
        # Some have refused: the others must not wait for them.
        started = [host for host, answer in zip(hosts, answers, strict=True) if not isinstance(answer, HostFailure)]
        cancel(self._connections, started, self._run_id, 0.0)
        raise UmiakError(*[each.problem for each in failures], exit_status=Exit.REFUSED)


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

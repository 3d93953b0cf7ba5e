"""Runs Slurm's commands on a login node, over ssh. An adapter."""

from __future__ import annotations

import subprocess

from umiak.core.problem import Exit, UmiakError
from umiak.submit.backend import AnswerLost
from umiak.submit.backends.slurm.commands import ANSWER_S, SlurmCommands, asking_environment, no_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.core.problem import Problem
    from umiak.submit.backends.shared.remote import RemoteStore

SUBMITS = "sbatch"


class RemoteSlurmCommands(SlurmCommands):
    """Slurm, as the submit host of a place reaches it."""

    def __init__(self, place: str, store: RemoteStore, directory: str = "") -> None:
        super().__init__(place, {}, directory)
        self._store = store
        self._directory = directory
        self._there: Mapping[str, str] | None = None

    def environ(self) -> Mapping[str, str]:
        if self._there is None:
            self._there = self._store.asked("environment")["environment"]
        return self._there

    def missing(self, names: Sequence[str]) -> list[str]:
        return list(self._store.asked("find", names=list(names), path=self._directory)["missing"])

    def no_command(self, name: str) -> Problem:
        return no_command(self._place, name, self._store.label)

    def _run(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        from umiak.submit.backends.ssh.connections import HostFailure

        answer = self._store.tried(
            "execute",
            words=list(words),
            path=self._directory,
            env=dict(asking_environment(self.environ()) if env is None else env),
            limit_s=ANSWER_S,
        )
        if isinstance(answer, HostFailure):
            if words[0] == SUBMITS and answer.is_sent:
                raise AnswerLost(self._place, f"{answer.problem.what}: {answer.problem.why}")
            raise UmiakError(answer.problem, exit_status=Exit.REFUSED)
        if answer["code"] is None and answer["err"]:
            raise UmiakError(self.no_command(words[0]), exit_status=Exit.REFUSED)
        if answer["code"] is None:
            raise subprocess.TimeoutExpired(list(words), ANSWER_S)
        return subprocess.CompletedProcess(list(words), answer["code"], answer["out"], answer["err"])

"""The tests run while Kubernetes is built, and those that need it afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from testbed import run_tests
from testbed.kubernetes import programs


class Machine:
    """What was started and waited for, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *statuses: int, missing: Sequence[str]) -> None:
        self.done: list[str] = []
        self._statuses = list(statuses)
        monkeypatch.setattr(programs, "is_missing", lambda product="kubernetes": product in missing)
        monkeypatch.setattr(subprocess, "run", self._run)
        monkeypatch.setattr(subprocess, "Popen", self._start)

    def _run(self, words: Sequence[str], *, check: bool) -> subprocess.CompletedProcess[bytes]:
        assert (tuple(words[:3]), check) == ((sys.executable, "-m", "pytest"), False)
        self.done.append(" ".join(words[3:]))
        return subprocess.CompletedProcess(words, self._statuses.pop(0))

    def _start(self, words: Sequence[str], *, start_new_session: bool) -> Any:
        assert start_new_session
        self.done.append("build")
        return self

    def wait(self) -> int:
        self.done.append("wait")
        return 0

    def poll(self) -> int:
        return 0


@pytest.mark.parametrize("missing", ["kubernetes", "kueue"])
@pytest.mark.parametrize(("statuses", "expected"), [((0, 0), 0), ((1, 0), 1), ((0, 1), 1), ((0, 5), 0), ((5, 5), 5)])
def test_tests_that_need_kubernetes_come_last(
    monkeypatch: pytest.MonkeyPatch, statuses: tuple[int, int], expected: int, missing: str
) -> None:
    machine = Machine(monkeypatch, *statuses, missing=[missing])
    assert run_tests.main(["-n", "3"]) == expected
    assert machine.done == ["build", "-n 3 -m not kubernetes", "wait", "-n 3 -m kubernetes"]


def test_a_choice_of_tests_waits_for_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 0, missing=["kubernetes", "kueue"])
    assert run_tests.main(["-m", "kubernetes"]) == 0
    assert machine.done[:3] == ["build", "wait", "-m kubernetes"]


def test_where_it_is_built_it_is_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1, missing=[])
    assert run_tests.main(["tests/unit"]) == 1
    assert machine.done == ["tests/unit"]

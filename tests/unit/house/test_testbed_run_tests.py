"""The tests run while Kubernetes is built, and those that need it afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import run_tests
from testbed.kubernetes import programs
from testbed.pytest_support import FAILED_TESTS


class Machine:
    """What was started and waited for, in order."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *statuses: int, missing: Sequence[str] = (), failed: Sequence[str] = ()
    ) -> None:
        self.done: list[str] = []
        self._failed = failed
        self._statuses = list(statuses)
        monkeypatch.setattr(programs, "is_missing", lambda product="kubernetes": product in missing)
        monkeypatch.setattr(subprocess, "run", self._run)
        monkeypatch.setattr(subprocess, "Popen", self._start)

    def _run(self, words: Sequence[str], *, check: bool, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        assert (tuple(words[:3]), check) == ((sys.executable, "-m", "pytest"), False)
        self.done.append(" ".join(words[3:]))
        if FAILED_TESTS in env and self._failed:
            Path(env[FAILED_TESTS]).write_text("".join(f"{name}\n" for name in self._failed))
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


LAUNCH, SERVE = "tests/integration/test_a.py::test_launch[2]", "tests/integration/test_b.py::test_serve"
ALONE = f"-n 0 --tb=short -q {LAUNCH} {SERVE}"


def test_tests_of_processes_that_pass_each_time_alone_are_told_as_unstable(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(monkeypatch, 1, 0, 0, 0, failed=[SERVE, LAUNCH, SERVE])
    assert run_tests.main(["-n", "4"]) == 0
    assert machine.done == ["-n 4", ALONE, ALONE, ALONE]
    said = capfd.readouterr().err
    assert f"UNSTABLE, failed beside others and passed 3 times alone:\n  {LAUNCH}\n  {SERVE}\n" in said


def test_one_failure_alone_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1, 0, 1, failed=[LAUNCH, SERVE])
    assert run_tests.main(["-n", "4"]) == 1
    assert machine.done == ["-n 4", ALONE, ALONE]


MANY = [f"tests/integration/test_a.py::test_launch[{number}]" for number in range(4)]


@pytest.mark.parametrize(
    "failed", [[], [LAUNCH, "tests/laws/test_plan_law.py::test_ranks"], ["tests/unit/x.py::y"], MANY]
)
def test_what_does_not_depend_on_load_and_many_failures_fail_at_once(
    monkeypatch: pytest.MonkeyPatch, failed: list[str]
) -> None:
    machine = Machine(monkeypatch, 1, failed=failed)
    assert run_tests.main(["-n", "4"]) == 1
    assert machine.done == ["-n 4"]


def test_a_run_that_was_stopped_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 2, failed=[LAUNCH])
    assert run_tests.main(["-n", "4"]) == 2
    assert machine.done == ["-n 4"]


def test_names_of_failed_tests_are_written_by_a_real_run(tmp_path: Path) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text(
        "import pytest\n\n\n@pytest.mark.parametrize('n', [0, 1])\ndef test_zero(n):\n    assert n == 0\n"
    )
    names = tmp_path / "names"
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "-n",
        "1",
        "--rootdir",
        str(tmp_path),
        str(broken),
    ]
    root = Path(__file__).resolve().parents[3]
    ended = subprocess.run(
        words, env={**os.environ, FAILED_TESTS: str(names)}, cwd=root, capture_output=True, check=False
    )
    assert ended.returncode == 1, ended.stdout
    assert names.read_text() == "test_broken.py::test_zero[1]\n"

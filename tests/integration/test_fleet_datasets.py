"""Datasets of an unchanged script on umiak's servers: real processes, real programs behind the pipe, some of which fail."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from tests.support import forked_workers
from tests.support.paths import WORKERS
from tests.unit.fleet.test_fleet_datasets import DENSE, IDS, LABEL, quiet
from umiak.fleet.datasets import reading
from umiak.fleet.datasets.settings import DatasetSettings

SCRIPT = WORKERS / "fleet_datasets_script.py"
WITHIN_S = 240
pytestmark = [pytest.mark.paddle]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Ids 2 to 101, each once, in three files of different sizes."""
    (tmp_path / "parts").mkdir()
    for number, ids in enumerate([range(2, 12), range(12, 65), range(65, 102)]):
        (tmp_path / "parts" / f"part-{number}").write_text("".join(f"{each} {each % 2}\n" for each in ids))
    return tmp_path


def command(
    counts: str, work: Path, *words: str, launch: tuple[str, ...] = (sys.executable, "-m", "umiak", "launch")
) -> list[str]:
    return [*launch, *counts.split(), "--log_dir", "log", str(SCRIPT), str(work), *words]


def environ() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_", "FLAGS_"))}


def launched(work: Path, counts: str, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        command(counts, work, *words, launch=forked_workers.LAUNCH),
        cwd=work,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
    )
    logs = "".join(path.read_text() for path in sorted((work / "log").glob("workerlog.*")))
    return done.returncode, done.stdout + logs


def said(output: str) -> dict[str, set[str]]:
    """What the trainers said, by the first word."""
    found: dict[str, set[str]] = {}
    for word, rest in re.findall(r"said: (\w+) (.*)", output):
        found.setdefault(word, set()).add(rest)
    return found


def test_every_sample_of_both_kinds_is_learned_once(work: Path) -> None:
    status, output = launched(work, "--server_num 2 --trainer_num 2")
    assert status == 0, output
    told = said(output)
    once = next(iter(told["queue"]))
    each = float(re.findall(r"\[([\d.]+)\]", once)[0])
    assert told["queue"] == {f"[{each}] {100 * each:.3f}"}, output
    assert told["loaded"] == {"100"}
    assert told["shuffled"] == {"100, own 50"}
    assert told["memory"] == told["inferred"] == {f"[{2 * each}] {200 * each:.3f}"}
    assert told["released"] == {"0"}
    assert told["newer"] == {f"[{3 * each}] {300 * each:.3f}"}
    number = r"-?[\d.e+-]+"
    line = rf"time: \[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\], batch: \[2\], total\[1\]:\[{number}\], labels\[8\]:\[[01 ]+\]"
    assert re.search(line, output), output
    assert re.search(rf"batch: \[1\], judged\[1\]:\[{number}\]", output)


def test_trainers_of_a_sync_job_have_different_numbers_of_batches(work: Path) -> None:
    status, output = launched(work, "--server_num 1 --trainer_num 2", "--sync")
    assert status == 0, output
    assert said(output)["queue"], output


def test_sentences_through_a_generator_that_writes_strings(tmp_path: Path) -> None:
    """Words in several scripts and of several lengths; every id is learned once, and one by all."""
    (tmp_path / "parts").mkdir()
    words = [f"{('user', 'предмет', '商品', 'naïve-')[each % 4]}{each}" for each in range(2, 102)]
    sizes, lines = [1, 2, 3, 4] * 10, []
    for size in sizes:
        own, words = words[:size], words[size:]
        lines.append(" ".join([*own[:1], "die", *own[1:]]) + f"\t{len(lines) % 2}\n")
    assert not words
    for part in range(2):
        (tmp_path / "parts" / f"part-{part}").write_text("".join(lines[part::2]), encoding="utf-8")
    generator = f"{sys.executable} {SCRIPT.with_name('fleet_text_generator.py')}"
    status, output = launched(tmp_path, "--server_num 1 --trainer_num 2", "--sync", "--commands", generator)
    assert status == 0, output
    (once,) = said(output)["queue"]
    each = float(re.findall(r"\[([\d.]+)\]", once)[0])
    assert once == f"[{each}] {len(sizes) * each:.3f}", output


def test_programs_that_print_something_else_or_fail(work: Path) -> None:
    """The script catches the first error; the second one ends the job."""
    programs = ("sed s/1$/one/", "head -3 > /dev/null; echo what happened >&2; exit 9")
    status, output = launched(work, "--server_num 1 --trainer_num 1", "--commands", *programs)
    assert status == 1
    expected = ["part-0, line 1 ", "slot 1 (ids)", "UM-FLEET-046", "exit code 9", "    what happened", "UM-FLEET-045"]
    assert [text for text in expected if text not in output] == [], output


def test_a_program_that_hangs_ends_with_its_trainer(work: Path) -> None:
    mark = work / "started"
    program = f"(echo $BASHPID $PPID >> {mark}; exec sleep 1009) | cat"
    with open(work / "talk", "w") as talk:
        process = start(command("--server_num 1 --trainer_num 1", work, "--commands", program), work, talk)
        try:
            until(lambda: mark.exists() and len(mark.read_text().split()) >= 2, work)
            sleeper, shell = map(int, mark.read_text().split()[:2])
            trainer = parent(shell)
            assert trainer is not None
            os.kill(trainer, signal.SIGKILL)
            until(lambda: parent(sleeper) is None and parent(shell) is None, work)
            until(lambda: process.poll() is not None, work)
        finally:
            process.kill()
            process.wait()
    assert process.returncode != 0


def start(words: list[str], work: Path, talk: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, cwd=work, env=environ(), stdout=talk, stderr=subprocess.STDOUT, text=True)


def parent(pid: int) -> int | None:
    """Of a process that lives."""
    try:
        state, number = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state in "ZX" else int(number)


def until(holds: Callable[[], object], work: Path) -> None:
    ends = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < ends, (work / "talk").read_text()
        time.sleep(0.05)


STRINGS = """
from paddle.distributed import fleet

class Lines(fleet.MultiSlotStringDataGenerator):
    def generate_sample(self, line):
        def samples():
            words, dense, label = line.rstrip().split("|")
            yield zip(("ids", "dense", "label"), (words.split(), dense.split(), [label]))
        return samples

Lines().run_from_stdin()
"""


@pytest.mark.paddle
def test_strings_of_a_generator_are_the_numbers_that_they_say(tmp_path: Path) -> None:
    """Ids of 64 bits, zeros in front, signs, exponents: nothing goes through a float that is none."""
    (tmp_path / "lines.py").write_text(STRINGS)
    file = tmp_path / "part-0"
    file.write_text("18446744073709551615 007 9007199254740993|0.1 -2.5e-3|1\n42|+1e2 3|0\n")
    command = f"{sys.executable} {tmp_path / 'lines.py'}"
    asked = DatasetSettings(files=(str(file),), slots=(IDS, DENSE, LABEL), batch_size=4, command=command)
    (batch,) = reading.FileBatches(asked, quiet)
    (ids, offsets), (dense, _), (label, _) = batch.arrays()
    assert ids.view(np.uint64).tolist() == [2**64 - 1, 7, 2**53 + 1, 42]
    assert offsets.tolist() == [0, 3, 4]
    assert dense.reshape(-1).tolist() == np.array([0.1, -2.5e-3, 1e2, 3], np.float32).tolist()
    assert label.reshape(-1).tolist() == [1, 0]

"""How the launcher is started by programs: flags as values, and what of the two halves goes back to the caller."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from umiak.core.decode import decode, encode
from umiak.core.problem import Exit, UmiakError
from umiak.launch.command_line import reading

CASES: list[tuple[dict[str, object], list[str]]] = [
    ({}, []),
    ({"nproc_per_node": 2, "log_dir": "out"}, ["--nproc_per_node=2", "--log_dir=out"]),
    ({"devices": [0, 1], "tee": "all"}, ["--devices=0,1", "--tee=all"]),
    ({"devices": ("2",), "grace": 1.5, "sort_ip": True}, ["--devices=2", "--grace=1.5", "--sort_ip=True"]),
    ({"server_num": 2, "trainer_num": 3, "job_id": "ctr"}, ["--server_num=2", "--trainer_num=3", "--job_id=ctr"]),
    ({"nnodes": 2, "master": "10.0.0.1:8090", "quiet": True}, ["--nnodes=2", "--master=10.0.0.1:8090", "--quiet=True"]),
    ({"log_max_bytes": "1M", "hang_timeout": 60}, ["--log_max_bytes=1M", "--hang_timeout=60"]),
    ({"grace": 0, "max_restart": 0}, ["--grace=0", "--max_restart=0"]),
]
ENVIRON = {"UMIAK_GRACE": "7", "PADDLE_NPROC_PER_NODE": "3"}


@pytest.mark.parametrize(("values", "words"), CASES)
@pytest.mark.parametrize("is_module", [False, True])
def test_values_mean_what_their_flags_mean(values: dict[str, object], words: list[str], is_module: bool) -> None:
    program = ["pkg.train", "--lr", "0.1"] if is_module else ["-odd.py", "--lr", "0.1"]
    request = reading.of_values(values, ENVIRON, program, is_module=is_module)
    assert request == reading.read([*words, "-m" if is_module else "--", *program], ENVIRON)
    assert decode(reading.Request, json.loads(json.dumps(encode(request)))) == request


def test_wrong_values_are_told_all_at_once() -> None:
    with pytest.raises(UmiakError) as refused:
        reading.of_values({"nproc_per_node": "many", "grace": -1}, {}, [])
    told = [problem.what for problem in refused.value.problems]
    assert [what for what in told if "--nproc_per_node many" in what]
    assert [what for what in told if "--grace -1" in what]
    assert [what for what in told if what.startswith("nothing to run")]


def ran(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    request = reading.of_values({"log_dir": str(tmp_path / "log")}, {}, ["/bin/true"])
    before = f"""
import json, os, sys
from umiak.core.decode import decode
from umiak.launch import program, start
from umiak.launch.command_line.reading import Request
request = decode(Request, json.loads({json.dumps(encode(request))!r}))
"""
    return subprocess.run(
        [sys.executable, "-c", before + code], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def test_only_the_waiting_half_returns(tmp_path: Path) -> None:
    """And what was printed before is printed once."""
    code = """
sys.stdout.write("before\\n")
status = start.launch(request, os.environ)
print("after", status)
"""
    done = ran(code, tmp_path)
    assert [line for line in done.stdout.splitlines() if line in ("before", "after 0")] == ["before", "after 0"]
    assert done.stdout.count("before") == done.stdout.count("after") == 1
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("raised", "status", "told"),
    [
        ("ValueError('odd')", Exit.OUR_BUG, "error: this is a bug in umiak, not in your job"),
        ("KeyboardInterrupt", 130, ""),
    ],
)
def test_what_goes_wrong_in_the_working_half(raised: str, status: int, told: str, tmp_path: Path) -> None:
    code = f"""
def fail(self):
    raise {raised}
program._Launch.run = fail
status = start.launch(request, os.environ)
print("after")
sys.exit(status)
"""
    done = ran(code, tmp_path)
    assert (done.returncode, done.stdout) == (status, "after\n")
    assert told in done.stderr
    assert done.stderr.count("Traceback") == bool(told)

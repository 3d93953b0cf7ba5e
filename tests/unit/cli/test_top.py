"""`umiak top`: the runs that go on and the workers of one, for terminals and for programs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.run_directories import (
    WALL,
    exited,
    failure,
    journal,
    launch_directory,
    lines,
    locked,
    progress,
    train_directory,
)
from umiak.cli.dashboard import top, top_text
from umiak.cli.output import Printer
from umiak.core.problem import UmiakError
from umiak.dashboard.index import id_of
from umiak.dashboard.rows import RunKind, RunRow

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


def printed(*argv: str, home: Path) -> str:
    out = io.StringIO()
    assert top.main([*argv, "--no_submitted"], {"HOME": str(home)}, Printer(out, io.StringIO())) == 0
    return out.getvalue()


def test_runs_that_go_on_and_the_workers_of_the_newest(tmp_path: Path) -> None:
    launch_directory(tmp_path / "old" / "log")
    log = launch_directory(
        tmp_path / "ctr" / "log", journal(exited(1, 60.0, failure(1)), job_id="ctr"), state="running"
    )
    (log / "workerlog.0").write_text("x\n")
    with locked(log / "events.jsonl"):
        text = printed(str(tmp_path), home=tmp_path)
        assert text.startswith("1 run of 2\n")
        assert "ctr: running for" in text
        assert "workers: 1 failed, 1 silent" in text or "workers: 1 failed, 1 running" in text
        assert [line.split()[:2] for line in text.splitlines() if line.startswith("trainer ")] == [
            ["trainer", "1"],
            ["trainer", "0"],
        ]
        data = json.loads(printed("--json", "--once", str(tmp_path), home=tmp_path))
        assert [row["name"] for row in data["runs"]] == ["ctr"]
        assert data["run"]["first_failure"]["error"] == "ValueError: <b>broken</b>"
    everything = printed("--all", str(tmp_path), home=tmp_path)
    assert everything.startswith("2 runs of 2\n")
    assert "succeeded" in everything


def test_a_run_is_named_by_its_id_its_beginning_or_its_name(tmp_path: Path) -> None:
    directory = train_directory(tmp_path / "ctr", progress(100, 0.5), outcome={"stopped": False})
    run_id = id_of(str(directory))
    for name in (run_id, run_id[:5], f"{tmp_path.name}/ctr"):
        assert "succeeded" in printed("--run", name, str(tmp_path), home=tmp_path)
    with pytest.raises(UmiakError, match="unknown run: nothing"):
        printed("--run", "nothing", str(tmp_path), home=tmp_path)
    with pytest.raises(UmiakError, match="not a directory: nowhere"):
        printed("nowhere", home=tmp_path)
    assert printed(str(tmp_path), home=tmp_path).startswith("0 runs of 1\n")


def look(cpu_s: float, now_s: float, **changes: object) -> JsonObject:
    process = {"pid": 7, "does": "computing", "cpu_s": cpu_s, "memory_bytes": 3 << 20, "threads": 1}
    worker = {"role": "trainer", "rank": 0, "phase": "waiting", "state": "running", "host": "10.0.0.1", "since_s": WALL}
    worker |= {"wrote_s": now_s - 5, "process": process, "waits": "step 3 waits for trainer 1\x1b[2J", "reason": ""}
    return {
        "row": {"id": "a", "name": "ctr"},
        "sentence": "running",
        "hint": "",
        "now_s": now_s,
        "shares": {"compute": 0.75},
        "workers": [{"launcher": "", "workers": [worker]}],
        **changes,
    }


def row(**fields: object) -> RunRow:
    return RunRow(**{"id": "a" * 12, "kind": RunKind.TRAINED, "name": "ctr", "state": "running", **fields})  # type: ignore[arg-type]


def test_a_worker_has_its_share_of_a_core_since_the_look_before() -> None:
    text = top_text.screen([row()], 1, look(12.0, WALL + 64), look(9.0, WALL + 60), WALL + 64)
    (line,) = [line for line in text.splitlines() if line.startswith("trainer 0")]
    assert line.split()[2:11] == ["waiting", "1", "min", "5", "s", "ago", "75%", "3", "MiB"]
    assert "\x1b" not in text
    assert "time: compute 75%" in text


def test_servers_are_one_line_with_their_rates() -> None:
    servers = {
        "servers": [{"reachable": True, "rows": 5}, {"reachable": False}],
        "rates": {"pulled_rows_per_s": {"now": 1234.0, "p50": 1000.0, "p99": 2000.0}},
    }
    text = top_text.screen([], 0, look(1.0, WALL, servers=servers), None, WALL)
    assert "servers: 1 of 2 answer, 5 rows, 1,234 rows/s pulled (p50 1,000, p99 2,000)\n" in text
    whole = {"count": 9, "p50_s": 0.0125, "p99_s": 1.5, "recent": None}
    servers["latencies"] = {"pulls": whole, "pushes": {**whole, "recent": {"count": 1, "p50_s": 2e-5, "p99_s": 3e-5}}}
    text = top_text.screen([], 0, look(1.0, WALL, servers=servers), None, WALL)
    assert "a pull takes 12.5 ms (p99 1.5 s), a push takes 0.02 ms (p99 0.03 ms)\n" in text


@pytest.mark.parametrize("width", [24, 40, 80])
def test_it_fits_a_narrow_terminal(width: int) -> None:
    rows = [row(name="c" * 70, started_s=WALL, step=5, samples_per_s=1e6, metric="train/auc", metric_value=0.5)]
    text = top_text.screen(rows * 20, 40, look(1.0, WALL + 64), look(0.5, WALL + 60), WALL + 64, width)
    assert max(map(len, text.splitlines())) <= width
    assert "10 more" in text


def test_it_starts_without_a_framework(tmp_path: Path) -> None:
    with locked(train_directory(tmp_path / "ctr") / "metrics.jsonl") as file:
        file.write(lines(progress(300, 0.4)))
        file.flush()
        code = (
            "import sys\n"
            "from umiak.cli.main import main\n"
            f"status = main(['top', '--no_submitted', {str(tmp_path)!r}])\n"
            "heavy = {'numpy', 'paddle', 'torch', 'umiak_native', 'asyncio', 'umiak.submit.flow'} & set(sys.modules)\n"
            "sys.exit(f'imported: {heavy}' if heavy else status)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "loss 0.4" in done.stdout

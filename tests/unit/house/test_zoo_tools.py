"""The tools behind the table of PaddleRec's models: smaller tables, limits, and whose failure it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tools import zoo_compare, zoo_rows

ENDLESS = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], process_group=0); print('up', flush=True); time.sleep(600)"


def test_ids_are_taken_modulo_and_values_stay(tmp_path: Path) -> None:
    model = tmp_path / "zoo" / "models" / "rank" / "a"
    (model / "data").mkdir(parents=True)
    config = "runner:\n  train_data_dir: data\nhyper_parameters:\n  sparse_feature_number: 1000001\n  sparse_feature_dim: 9\n"
    (model / "config.yaml").write_text(config)
    (model / "data" / "part").write_text("click:1 dense_feature:0.0049 dense_feature:17 1:999983 2:100 3:101\n")
    other = model.parent / "b"
    (other / "data").mkdir(parents=True)
    (other / "config.yaml").write_text(config)
    (other / "data" / "part").write_text("1 2 3 4 5\n")
    assert zoo_rows.copy(tmp_path / "zoo", tmp_path / "small", 101) == ["rank/a"]
    assert (tmp_path / "small/models/rank/a/config.yaml").read_text() == config.replace("1000001", "101")
    assert (tmp_path / "small/models/rank/a/data/part").read_text() == (
        f"click:1 dense_feature:0.0049 dense_feature:17 1:{999983 % 101} 2:100 3:0\n"
    )
    assert (tmp_path / "small/models/rank/b/config.yaml").read_text() == config
    assert (model / "config.yaml").read_text() == config
    assert zoo_compare.fewer_rows(tmp_path / "small", "rank/a") == {"rows": 101}
    assert zoo_compare.fewer_rows(tmp_path / "small", "rank/b") == {}
    assert zoo_compare.fewer_rows(tmp_path / "zoo", "rank/a") == {}


def test_a_limit_ends_everything_that_was_started() -> None:
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout as output:
        output.readline()
    there = zoo_compare.processes_of(process.pid)
    assert len(there) == 2
    assert zoo_compare.memory_of(process.pid) > 1 << 20
    status, most = zoo_compare.waited(process.pid, time.monotonic())
    process.returncode = 0  # it was waited for
    assert status == "timeout"
    assert most > 1 << 20
    for number in there:
        while os.path.exists(f"/proc/{number}") and "Z" not in Path(f"/proc/{number}/stat").read_text().split()[2]:
            time.sleep(0.01)


def test_too_much_memory_ends_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    status, _ = zoo_compare.waited(process.pid, time.monotonic() + 600, limit=1 << 20)
    process.returncode = 0
    assert status == "memory"


def test_an_exit_status_is_handed_on() -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"], start_new_session=True)
    assert zoo_compare.waited(process.pid, time.monotonic() + 600)[0] == 4
    process.returncode = 4


def test_whose_failure_it_is() -> None:
    ours = "error: ./net.py:47: the model's code failed: TypeError: (InvalidType) float32 and int32. [UM-TRAIN-021]"
    own = "Traceback (most recent call last):\n  File x\nTypeError: (InvalidType) float32 and int32.\n"
    assert zoo_compare.is_same_failure(ours, own)
    assert not zoo_compare.is_same_failure(ours, own.replace("int32", "int64"))
    assert not zoo_compare.is_same_failure(ours, "")


def test_a_config_has_training_data(tmp_path: Path) -> None:
    model = tmp_path / "models" / "rank" / "a"
    model.mkdir(parents=True)
    assert zoo_compare.config_of(tmp_path, "rank/a").name == "config.yaml"
    (model / "config_infer.yaml").write_text("runner:\n  test_data_dir: data\n")
    (model / "usual.yaml").write_text("runner:\n  train_data_dir: data\n")
    assert zoo_compare.config_of(tmp_path, "rank/a").name == "usual.yaml"
    (model / "config.yaml").write_text("")
    assert zoo_compare.config_of(tmp_path, "rank/a").name == "config.yaml"


def test_the_quickest_come_first() -> None:
    known = {("static", name, "alone"): {"seconds": seconds} for name, seconds in (("a", 9.0), ("b", 1.0))}
    assert zoo_compare.quickest_first(["a", "b", "c"], "static", known) == ["c", "b", "a"]


def test_results_name_no_directories_of_the_machine(tmp_path: Path) -> None:
    text = (
        f'File "{zoo_compare.ROOT}/src/umiak/cli/main.py", line 3\n'
        f'File "{tmp_path}/models/rank/a/net.py", line 4\n'
        'File "/somewhere/lib/python3.11/site-packages/paddle/nn/layer.py", line 5\n'
    )
    assert zoo_compare.without_own_paths(text, tmp_path) == (
        'File "src/umiak/cli/main.py", line 3\nFile "models/rank/a/net.py", line 4\nFile "paddle/nn/layer.py", line 5\n'
    )

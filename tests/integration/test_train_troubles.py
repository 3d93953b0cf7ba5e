"""What can go wrong in a training, each with one clear error: no traceback of ours, no waiting for ever, and the last checkpoint as it was."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.support import forked_trials
from tests.support.slot_helpers import packed
from tests.support.train_runs import WAIT_S, Done, Whole, Work, slow

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle")]

OURS = "this is a bug in umiak"


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def check(done: Done, code: str, *texts: str, status: int | None = None) -> None:
    """One problem with its code, and no excuse of ours."""
    assert done.status == status if status is not None else done.status not in (0, 70), done.said
    assert f"[{code}]" in done.said, done.said
    for text in texts:
        assert text in done.said, f"{text}\n{done.said}"
    assert OURS not in done.said
    assert "Traceback" not in done.said


def check_steps(work: Work, runner: str) -> None:
    """Whatever happened, what was saved before is whole, and nothing else is there."""
    names = work.names("steps", runner)
    assert names
    assert all(re.fullmatch(r"epoch_\d+_batch_\d+", name) for name in names), names
    for name in names:
        work.checkpoint("steps", runner, name)


def in_model(work: Work, code: str) -> None:
    """Let the model's logit begin with this."""
    path = work.path / "model.py"
    text = path.read_text()
    path.write_text(text.replace("    def logit(self, inputs):\n", f"    def logit(self, inputs):\n        {code}\n"))


# ---- training


def test_a_loss_that_is_no_number(work: Work) -> None:
    """In the second trainer, after some good steps: the first one says nothing else, and does not wait."""
    in_model(
        work,
        "self.times = getattr(self, 'times', 0) + self.training\n"
        "        if self.times > 6 and os.environ['UMIAK_RANK'] == '1': return paddle.to_tensor(float('nan')) * "
        "paddle.ones([inputs.size, 1])",
    )
    done = work.run_forked("sync")
    check(done, "UM-TRAIN-014", "the loss is NaN at step 6", "a smaller learning rate", status=1)
    assert work.names("steps", "sync") == ["epoch_0_batch_4"]
    check_steps(work, "sync")


def test_a_rate_that_is_too_high(work: Work) -> None:
    done = work.here("alone", "-o", "hyper_parameters.optimizer={class: SGD, learning_rate: 1e30}")
    check(done, "UM-TRAIN-014", "the loss is NaN at step ", status=1)


def test_a_server_that_is_lost(work: Work) -> None:
    started = work.start("sync", env=slow(0.03))
    assert started.until(lambda: work.names("steps", "sync") and work.paced() >= 12, "a checkpoint")
    started.kill("server")
    done = started.end()
    check(done, "UM-TRAIN-018", "server ", "hint: `--resume` continues from the latest checkpoint", status=1)
    assert any(re.fullmatch(r"epoch_0_batch_\d+", name) for name in work.names("steps", "sync"))


# ---- saving


@pytest.mark.parametrize("runner", ["alone", "sync"])
def test_a_disk_that_is_full(work: Work, whole: Whole, runner: str) -> None:
    """A file system with room for a checkpoint and a half, which this run alone sees."""
    require(None if os.geteuid() == 0 and shutil.which("unshare") else "mounting needs root")
    size = subprocess.run(["du", "-sk", whole.of(runner).path / "out" / runner / "0"], stdout=subprocess.PIPE).stdout
    (work.path / "steps").mkdir()
    mount = f"mount -t tmpfs -o size={int(size.split()[0]) * 3 // 2}k none steps && cp_back() {{ cp -r steps kept; }}"
    script = f'{mount} && "$@"; status=$?; cp_back; exit $status'
    done = work.run(runner, before=["unshare", "-m", "sh", "-c", script, "sh"])
    check(
        done, "UM-TRAIN-017", f"a checkpoint can't be saved: steps/{runner}/epoch_0_batch_8", "No space left", status=3
    )
    assert "hint: free disk space, or save elsewhere" in done.said
    assert f"`--resume` continues from the checkpoint before it: steps/{runner}/epoch_0_batch_4" in done.said
    assert work.names("kept", runner) == ["epoch_0_batch_4"]
    shutil.copytree(work.path / "kept" / runner, work.path / "steps" / runner)
    if runner == "alone":
        assert "resuming from steps/" in work.here(runner, "--resume").said
        assert work.checkpoint("out", runner, "1") == whole.of(runner).checkpoint("out", runner, "1")


def test_a_disk_that_has_no_room_for_the_first_checkpoint(work: Work) -> None:
    """The hint promises none that could be resumed from."""
    require(None if os.geteuid() == 0 and shutil.which("unshare") else "mounting needs root")
    (work.path / "steps").mkdir()
    script = 'mount -t tmpfs -o size=8k none steps && exec "$@"'
    done = work.run("alone", before=["unshare", "-m", "sh", "-c", script, "sh"])
    check(done, "UM-TRAIN-017", "a checkpoint can't be saved: steps/alone/epoch_0_batch_4", "No space left", status=3)
    assert "no other checkpoint is in steps/alone: `--resume` would begin at the start" in done.said


def test_talk_that_can_not_be_written_ends_no_training(work: Work, whole: Whole) -> None:
    """The disk that stderr is redirected to is full."""
    command = [sys.executable, "-m", "umiak.cli.main", "train", "-m", "config.yaml", "-o", "mode=alone"]
    with open("/dev/full", "w") as full:
        assert subprocess.run(command, cwd=work.path, stderr=full, timeout=WAIT_S).returncode == 0
    assert work.checkpoint("out", "alone", "1") == whole.of("alone").checkpoint("out", "alone", "1")


def test_a_checkpoint_that_was_changed_since(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "steps" / "alone", work.path / "steps" / "alone")
    newest = work.path / "steps" / "alone" / "epoch_1_batch_16"
    shard = max(newest.glob("shard-*"), key=lambda each: each.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    done = work.here("alone", "--resume")
    check(done, "UM-TRAIN-022", "a checkpoint can't be loaded: steps/alone/epoch_1_batch_16", shard.name, status=3)
    newest.rename(work.path / "away")
    assert "resuming from steps/alone/epoch_1_batch_12" in work.here("alone", "--resume").said


# ---- data


def replaced(work: Work, change: Callable[[Path], object]) -> Path:
    file = work.path / "data" / "train" / "part-1"
    change(file)
    return file


def test_a_line_that_is_none(work: Work) -> None:
    file = replaced(work, lambda file: file.write_text(file.read_text() + "click:1 what is this\n"))
    check(work.here("alone"), "UM-DATA-001", f"data/train/part-1:{len(file.read_text().splitlines())}", status=2)


def test_a_packed_file_that_is_broken(work: Work) -> None:
    replaced(work, lambda file: file.write_bytes(packed(file.read_bytes(), "gzip")[:-200]))
    check(work.here("alone"), "UM-DATA-002", "data/train/part-1")


def test_a_file_that_can_not_be_read(work: Work) -> None:
    file = replaced(work, Path.unlink)
    file.symlink_to("/proc/self/mem")
    check(work.here("alone"), "UM-DATA-002", "data/train/part-1")


@pytest.mark.parametrize("runner", ["alone", "sync"])
def test_a_file_that_vanishes_between_two_epochs(work: Work, runner: str) -> None:
    code = "if not self.training and os.path.exists('data/train/part-1'): os.unlink('data/train/part-1')"
    if runner != "alone":
        code = code.replace("os.unlink(", "os.environ['UMIAK_RANK'] == '0' and os.unlink(")
    in_model(work, code)
    done = work.here(runner) if runner == "alone" else work.run_forked(runner)
    check(done, "UM-DATA-002", "no such file: data/train/part-1")
    assert work.names("out", runner) == ["0"]
    check_steps(work, runner)


def test_a_slot_that_never_occurs_and_one_that_always_does(work: Work) -> None:
    for name in ("train", "test"):
        for file in (work.path / "data" / name).iterdir():
            file.write_text(file.read_text().replace("price:", "dense_feature:"))
    work.change("price:2", "dense_var:2")
    done = work.here("alone")
    check(
        done, "UM-DATA-009", "slot dense_var is declared, and none of the 1200 lines", "did you mean `dense_feature`?"
    )
    work.change(', dense_slots: "dense_var:2"', "")
    done = work.here("alone")
    check(done, "UM-DATA-009", "has slot dense_feature, not declared")


# ---- models


@pytest.mark.parametrize(
    ("old", "new", "code", "texts"),
    [
        ("    def logit(self, inputs):", "    def logit(self, inputs:", "UM-TRAIN-021", ("SyntaxError", "model.py:")),
        (
            "        rows = self",
            "        raise ValueError('of mine')\n        rows = self",
            "UM-TRAIN-021",
            ("ValueError: of mine",),
        ),
        (
            "import paddle\n",
            "import paddle\nimport nothing_like_it\n",
            "UM-TRAIN-540",
            ("nothing_like_it in ./model.py:", "pip install"),
        ),
        ("class Model(", "class Modell(", "UM-TRAIN-013", ("has no class Model", "Modell")),
        ("class Model(ClickModel)", "class Model", "UM-TRAIN-013", ("is not one that is understood",)),
    ],
)
def test_a_model_that_does_not_work(work: Work, old: str, new: str, code: str, texts: tuple[str, ...]) -> None:
    """A model's own traceback has nothing of ours in it."""
    path = work.path / "model.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    done = work.here("alone")
    assert done.status in (1, 2)
    for text in (f"[{code}]", *texts):
        assert text in done.said, done.said
    assert OURS not in done.said
    assert "umiak/train" not in done.said


def test_a_model_that_fails_in_one_trainer(work: Work) -> None:
    in_model(work, "if os.environ['UMIAK_RANK'] == '1': raise ValueError('of mine')")
    done = work.run_forked("async")
    assert done.status == 1, done.said
    assert "the model's code failed: ValueError: of mine [UM-TRAIN-021]" in done.said
    assert OURS not in done.said


def test_a_hyper_parameter_that_is_none(work: Work) -> None:
    check(work.here("alone", "-o", "hyper_parameters.dimm=8"), "UM-TRAIN-012", "dimm", "did you mean `dim`?", status=2)
    check(work.here("alone", "-o", "hyper_parameters.dim=many"), "UM-TRAIN-012", "many", status=2)


@pytest.mark.parametrize("decorator", ["@dataclass(frozen=True)", "@value"])
def test_a_frozen_class_for_hyper_parameters(work: Work, decorator: str) -> None:
    path = work.path / "model.py"
    text = (
        path.read_text()
        .replace("    @dataclass\n", f"    {decorator}\n")
        .replace("import os\n", "import os\nfrom umiak.core.value import value\n")
    )
    path.write_text(text)
    done = work.here("alone", "-o", "runner.epochs=1", "-o", "hyper_parameters.dim=2")
    assert done.status == 0, done.said
    check(work.here("alone", "-o", "hyper_parameters.dimm=8"), "UM-TRAIN-012", "dimm", "did you mean `dim`?", status=2)


def test_a_model_that_ends_its_process(work: Work) -> None:
    in_model(work, "raise SystemExit(0)")
    done = work.here("alone")
    assert done.status == 1, done.said
    assert "the model's code failed: SystemExit: 0: a model that ends its process ends the training" in done.said
    path = work.path / "model.py"
    path.write_text("import sys\nsys.exit()\n")
    done = work.here("alone")
    assert (done.status, "model.py:2: the model's code failed: SystemExit" in done.said) == (1, True), done.said


def test_a_model_for_fluid(work: Work) -> None:
    path = work.path / "model.py"
    path.write_text("import math\nimport paddle.fluid as fluid\n" + path.read_text())
    check(work.here("alone"), "UM-TRAIN-060", "model.py:2: the model is written for paddle.fluid", "hint: ", status=2)
    config = work.path / "config.yaml"
    text = config.read_text()
    assert "sparse_slots" in text
    config.write_text(re.sub(r'(sparse_slots: *"?)', r"\1no_such_slot ", text))
    done = work.here("alone")
    check(done, "UM-TRAIN-060", "paddle.fluid", status=2)
    assert "UM-DATA" not in done.said, "a slot's name is not the reason"


# ---- looking before it is run


def checked(work: Work, *words: str, forked: bool = True) -> tuple[int, list[str], list[str]]:
    """What ``--check`` says: the status, problems and warnings. ``forked``: whether the process that imports the model has Paddle already."""
    with forked_trials.installed() if forked else contextlib.nullcontext():
        done = work.here("alone", "--check", "--json", *words)
    answer = json.loads(done.out)
    problems, warnings = (
        [f"{each['code']} {each['where'] or ''} {each['what']}" for each in answer[name]]
        for name in ("problems", "warnings")
    )
    return done.status, problems, warnings


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import nothing_like_it",
            "UM-TRAIN-021 ./model.py:1 the model's code failed: ModuleNotFoundError: No module named 'nothing_like_it'",
        ),
        ("raise ValueError('of mine')", "UM-TRAIN-021 ./model.py:1 the model's code failed: ValueError: of mine"),
        ("import sys; sys.exit(0)", "UM-TRAIN-021 ./model.py:1 the model's code failed: SystemExit: 0"),
        (
            "import os; print('words', flush=True); os._exit(0)",
            "UM-TRAIN-061  ./model.py: the process that imported it ended with status 0",
        ),
        (
            "import os; os.kill(os.getpid(), 11)",
            "UM-TRAIN-061  ./model.py: the process that imported it ended by SIGSEGV",
        ),
        ("class Model: pass\nraise SystemExit", "UM-TRAIN-021 ./model.py:2 the model's code failed: SystemExit"),
    ],
)
def test_check_imports_the_model(work: Work, code: str, said: str) -> None:
    path = work.path / "model.py"
    path.write_text(f"{code}\n{path.read_text()}")
    status, problems, _ = checked(work)
    assert status == 2
    assert len(problems) == 1
    assert problems[0].startswith(said)


def test_check_imports_the_model_in_a_program(work: Work) -> None:
    assert checked(work, forked=False) == (0, [], [])
    path = work.path / "model.py"
    path.write_text(f"import os; os.kill(os.getpid(), 9)\n{path.read_text()}")
    status, problems, _ = checked(work, forked=False)
    assert status == 2
    assert len(problems) == 1
    assert problems[0].startswith("UM-TRAIN-061  ./model.py: the process that imported it ended by SIGKILL")


def test_check_knows_the_hyper_parameters(work: Work) -> None:
    status, problems, _ = checked(work, "-o", "hyper_parameters.dimm=3", "-o", "hyper_parameters.dim=many")
    assert (status, problems) == (
        2,
        [
            "UM-TRAIN-012 config.yaml hyper_parameters.dim must be an integer, not 'many'",
            "UM-TRAIN-012 config.yaml the model has no hyper-parameter dimm",
        ],
    )


def test_check_tells_of_devices_that_are_not_here(work: Work) -> None:
    assert checked(work, "-o", "runner.alone.device=xpu") == (
        0,
        [],
        ["UM-TRAIN-024 config.yaml device xpu can't be used here"],
    )


# ---- several runners


def test_a_runner_behind_one_of_several_processes_is_run_once(work: Work) -> None:
    done = work.run_forked("[sync,infer]", "-o", "runner.infer.init_model_path=out/sync")
    assert done.status == 0, done.said
    assert done.said.count("evaluates out/sync/0 (1 of 2)") == 1


@pytest.mark.parametrize("runner", ["sync", "collective"])
def test_of_paddles_own_talk_nothing_is_shown(work: Work, runner: str) -> None:
    """Also of what it says when it is imported: these are programs, not forks."""
    done = work.run(runner, "-o", f"runner.{runner}.epochs=1")
    assert done.status == 0, done.said
    assert not re.search("ccache|FLAGS|tcp_store|Warning", done.said), done.said


def test_an_end_by_a_signal_while_servers_wait(work: Work) -> None:
    """The second signal does not wait for anybody."""
    started = work.start("sync", env=slow(600))
    assert started.until(lambda: work.paced() >= 2, "both trainers have begun a batch")
    started.signal(signal.SIGTERM)
    assert started.until(lambda: "received SIGTERM" in started.said, "it is heard")
    started.signal(signal.SIGINT)
    assert started.end().status == 143


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--run_dir", "in-the-way"], 3, "in-the-way/alone: Not a directory [UM-TRAIN-023]"),
        (
            ["-o", "runner.alone.save_inference_path=in-the-way"],
            3,
            "a checkpoint can't be saved: in-the-way [UM-TRAIN-017]",
        ),
        (
            ["-o", "runner.alone.runner_result_dump_path=nowhere/x"],
            3,
            "nowhere/x_epoch_0: No such file or directory [UM-TRAIN-023]",
        ),
        (["-o", "dataset.train.data_path=nothing"], 2, "dataset train has no samples: nothing [UM-TRAIN-019]"),
        *(
            (["-o", f"runner.alone.device={device}"], 3, f"device {device} can't be used here [UM-TRAIN-024]")
            for device in ("gpu", "xpu", "npu")
        ),
    ],
)
def test_what_the_machine_can_not_give(work: Work, words: list[str], status: int, said: str) -> None:
    (work.path / "in-the-way").write_text("a file")
    (work.path / "nothing").mkdir()
    (work.path / "nothing" / "part").touch()
    done = work.here("alone", *words)
    assert done.status == status, done.said
    assert said in done.said
    assert "Traceback" not in done.said


def test_a_reader_class_and_a_model_look_into_the_config(work: Work) -> None:
    """At everything that is written there, also what nobody else knows."""
    (work.path / "reader.py").write_text(
        "import json\n"
        "from paddlerec.core.utils import envs\n\n"
        + (work.path / "reader.py")
        .read_text()
        .replace(
            "        pass\n",
            "        names = ['workspace', 'hyper_parameters.buckets', 'dataset.own.oov_size', 'dataset.oov_size',\n"
            "                 'runner.alone.use_auc', 'runner.use_auc', 'runner.sync.epochs', 'phase.own.dataset_name', 'none']\n"
            "        with open('seen', 'w') as file:\n"
            "            json.dump([envs.get_global_env(name, 'default') for name in names], file)\n",
            1,
        )
    )
    model = work.path / "model.py"
    model.write_text(
        "from paddlerec.core.utils import envs\nOWN = envs.get_global_env('hyper_parameters.buckets')\nassert OWN == 1000, OWN\n"
        + model.read_text()
    )
    words = [
        *("-o", "runner.alone.phases=[own]", "-o", "runner.alone.epochs=1", "-o", "hyper_parameters.buckets=1000"),
        *("-o", "dataset.own.oov_size=7", "-o", "runner.alone.use_auc=true"),
    ]
    done = work.run_forked("alone", *words)
    assert done.status == 0, done.said
    for name in (
        "dataset own: unknown key: oov_size",
        "runner alone: unknown key: use_auc",
        "no hyper-parameter buckets",
    ):
        assert any(line.startswith("warning: ") and name in line for line in done.said.splitlines()), done.said
    seen = json.loads((work.path / "seen").read_text())
    assert seen == ["./", 1000, 7, 7, True, True, 2, "own", "default"]
    checked = work.run_forked("alone", *words, "--check")
    assert checked.status == 0, checked.said
    assert "no hyper-parameter buckets" in checked.said


# ---- what would be learned, and what from


def test_a_loss_that_depends_on_nothing(work: Work) -> None:
    in_model(work, "return paddle.ones([inputs.size, 1])")
    done = work.here("alone")
    check(done, "UM-TRAIN-063", "the loss depends on no parameter", status=1)
    in_model(work, "return self.top(paddle.zeros([inputs.size, 18])).detach()")
    check(work.here("alone"), "UM-TRAIN-063", status=1)


def test_an_exception_on_the_way_back_is_the_models(work: Work) -> None:
    path = work.path / "model.py"
    own = (
        "class Own(paddle.autograd.PyLayer):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return x\n\n"
        "    @staticmethod\n    def backward(ctx, g):\n        raise ValueError('of mine')\n\n\nclass Model("
    )
    path.write_text(
        path.read_text()
        .replace("class Model(", own, 1)
        .replace("return self.top(", "return Own.apply(self.top(")
        .replace("axis=1))\n", "axis=1)))\n")
    )
    done = work.here("alone")
    assert done.status == 1, done.said
    assert "of mine" in done.said
    assert "[UM-TRAIN-021]" in done.said
    assert OURS not in done.said


@pytest.mark.parametrize("runner", ["alone", "infer"])
def test_labels_that_are_missing_or_out_of_range(work: Work, whole: Whole, runner: str) -> None:
    shutil.copytree(whole.of("alone").path / "out", work.path / "out")
    for name in ("train/part-1", "test/part"):
        file = work.path / "data" / name
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join([*lines[:-1], lines[-1].partition(" ")[2]]))
    check(work.here(runner), "UM-DATA-061", "lines that were read have no label click", status=2)
    for name in ("train/part-1", "test/part"):
        file = work.path / "data" / name
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join([*lines[:-1], f"click:2 {lines[-1]}"]))
    check(work.here(runner), "UM-TRAIN-064", "label click is 2, and the model needs 0 or 1", status=2)
    path = work.path / "model.py"
    path.write_text(path.read_text().replace("    @dataclass\n", "    strict_labels = False\n\n    @dataclass\n"))
    assert work.here(runner).status == 0


def test_an_evaluation_of_nothing(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "out", work.path / "out")
    (work.path / "data" / "test" / "part").write_text("")
    check(work.here("infer"), "UM-TRAIN-019", "dataset test has no samples", status=2)


# ---- where it is saved


def test_a_path_that_can_not_be_written_is_found_before_the_first_batch(work: Work) -> None:
    (work.path / "in-the-way").write_text("a file")
    for key in ("save_checkpoint_path", "save_step_path", "save_inference_path"):
        done = work.here("alone", "-o", f"runner.alone.{key}=in-the-way/below")
        check(done, "UM-TRAIN-017", "a checkpoint can't be saved: in-the-way/below", "Not a directory", status=3)
        assert "epoch 1/2" not in done.said


def test_a_run_that_begins_again_puts_the_old_checkpoints_aside(work: Work, whole: Whole) -> None:
    shutil.copytree(whole.of("alone").path / "out", work.path / "out")
    before = work.checkpoint("out", "alone", "1")
    done = work.here("alone", "-o", "runner.alone.epochs=1", "-o", "runner.alone.seed=5")
    assert done.status == 0, done.said
    assert "note: checkpoints of an earlier run are in out/alone/previous-1 now" in done.said
    assert work.names("out", "alone") == ["0", "previous-1"]
    assert work.names("out", "alone", "previous-1") == ["0", "1"]
    assert work.checkpoint("out", "alone", "previous-1", "1") == before
    assert work.here("infer").said.count("evaluates out/alone/") == 1
    assert "resuming from out/alone/0" in work.here("alone", "--resume").said


def test_the_best_checkpoint_is_kept_and_marked(work: Work) -> None:
    words = [
        *("-o", "runner.alone.early_stop_patience=2", "-o", "runner.alone.keep_checkpoints=1"),
        *("-o", "runner.alone.epochs=9", "-o", "hyper_parameters.optimizer={class: Adam, learning_rate: 0.2}"),
    ]
    done = work.here("alone", *words)
    assert done.status == 0, done.said
    rows = work.epochs("alone")
    best = max(range(len(rows)), key=lambda epoch: rows[epoch]["evaluated"]["auc"])
    assert best < len(rows) - 1, "it ended because it grew worse"
    assert work.names("out", "alone") == sorted([str(best), str(len(rows) - 1), "best"])
    assert os.readlink(work.path / "out" / "alone" / "best") == str(best)
    done = work.here("infer", "-o", "runner.infer.init_model_path=out/alone/best")
    assert done.status == 0, done.said
    judged = [row for row in work.metrics("infer") if row["event"] == "epoch"]
    assert judged[0]["evaluated"]["auc"] == pytest.approx(rows[best]["evaluated"]["auc"], abs=1e-6)


def test_two_runs_do_not_share_a_run_directory(work: Work) -> None:
    first = work.start("alone", env=slow(0.2))
    assert first.until(lambda: work.paced() >= 1, "a batch")
    second = work.here("alone")
    check(second, "UM-TRAIN-065", "another run writes to this run directory: run/alone", status=3)
    first.signal(signal.SIGTERM)
    assert first.end().status == 143
    assert work.outcome("alone")["resumable"] is True

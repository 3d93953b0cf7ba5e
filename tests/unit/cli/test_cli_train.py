"""`umiak train` as a person meets it: help, plans, checks, and errors that say where and what to do."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shlex
from pathlib import Path

import pytest

from tests.support.train_helpers import ASYNC_CLUSTER, FLAT, dataset_text, runner_text, small
from tests.unit.cli.test_cli_imports import HEAVY, modules_after
from umiak.cli import train, train_start
from umiak.cli.main import main
from umiak.cli.texts import help_text
from umiak.cli.train_flags import FLAGS
from umiak.launch.command_line import reading


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory of one's own, and an environment without a cluster."""
    for name in list(os.environ):
        if name not in ("PATH", "HOME", "PYTHONPATH", "LANG"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def ask(capsys: pytest.CaptureFixture[str], *words: str, text: str = runner_text()) -> tuple[int, str, str]:
    Path("config.yaml").write_text(text, encoding="utf-8")
    status = main(["train", "-m", "config.yaml", *words])
    return status, *capsys.readouterr()


# ---- help


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train", "--help"], ["train", "-h"], ["help", "train"], ["train", "-m", "x", "--help"]):
        assert main(words) == 0
        out, err = capsys.readouterr()
        assert out == help_text.of("train")
        assert err == ""
    assert main(["train", "--version"]) == 0
    assert main(["--help"]) == 0
    assert "  train  " in capsys.readouterr().out


def test_the_help_fits_and_has_every_flag() -> None:
    text = help_text.of("train")
    for line in text.splitlines():
        assert len(line) <= 102, line
        assert line == line.rstrip()
    joined = " ".join(text.split())
    for flag in FLAGS:
        assert f"--{flag.name}" in joined
        assert " ".join(flag.help.split()) in joined
    assert text.index("Examples:") < text.index("-m, --model, --config_yaml CONFIG")


def test_examples_of_the_help_work() -> None:
    for example, _ in help_text.page_of("train").examples:
        words = shlex.split(example)
        assert words[:2] == ["umiak", "train"]
        assert train.parse(words[2:], {}).problems == ()


# ---- plans


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ask(capsys, "--explain")
    assert (status, err) == (0, "")
    assert out == (
        "config.yaml, workspace .\n"
        "└─ r: train on cpu\n"
        "   ├─ who: this process, alone (class train)\n"
        "   ├─ epochs: 1; a line every 20 batches\n"
        "   ├─ p: model.py, 1 thread\n"
        "   │  └─ d: data, batches of 2, DataLoader\n"
        "   │     └─ 2 sparse slots: click 1\n"
        "   └─ saves: nothing\n"
    )


def test_explain_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ask(capsys, "--explain", "--json", text=FLAT)
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert (answer["problems"], answer["warnings"]) == ([], [])
    (run,) = answer["plan"]["runs"]
    assert (run["name"], run["kind"], run["process_group"]["role"], run["epochs"]) == ("train", "train", "alone", 3)
    assert [phase["dataset"]["batch_size"] for phase in run["phases"]] == [512]
    assert not {"acts", "crew", "duty", "stages"} & {*answer["plan"], *run, *run["process_group"]}
    assert answer["plan"]["hyper_parameters"]["fc_sizes"] == [512, 256, 128, 32]


def test_explain_on_a_node(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_ROLE", "PSERVER")
    monkeypatch.setenv("PADDLE_PADDLEREC_ROLE", "WORKER")
    monkeypatch.setenv("PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1:36000")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("POD_IP", "10.0.0.1")
    monkeypatch.setenv("PADDLE_PORT", "36000")
    status, out, _ = ask(capsys, "--explain", text=ASYNC_CLUSTER)
    assert status == 0
    assert "parameter server 0 of 1 for 2 trainers, async (TRAINING_ROLE=PSERVER)" in out


def test_topology_is_looked_for_or_not(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UMIAK_NNODES", "2")
    monkeypatch.setenv("UMIAK_NODE_RANK", "1")
    _, out, _ = ask(capsys, "--explain", text=ASYNC_CLUSTER)
    assert "2 trainers and 2 parameter servers, async; started on this node" in out
    _, out, _ = ask(capsys, "--explain", "--topology", "none", text=ASYNC_CLUSTER)
    assert "needs a cluster" in out
    status, _, err = ask(capsys, "--explain", "--topology", "slrum", text=ASYNC_CLUSTER)
    assert status == 2
    assert "slurm" in err


def test_overrides(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ask(capsys, "--explain", "-o", "runner.epochs=7")
    assert "epochs: 7;" in out
    _, out, _ = ask(
        capsys, "-o", "runner.epochs=7", "dataset.batch_size=9", "--explain", "--override=phase.thread_num=3"
    )
    assert "epochs: 7;" in out
    assert "batches of 9," in out
    assert "3 threads" in out


def test_a_plan_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ask(capsys, "--explain", text=dataset_text(data_path='"da\\e]0;ta"'))
    assert "d: da\\x1b]0;ta, batches" in out


@pytest.mark.parametrize("words", [["--explain"], ["--explain", "--json"]])
def test_a_password_in_a_url_is_covered(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = ask(capsys, *words, text=dataset_text(data_path="hdfs://me:secret@host/ctr"))
    assert "hdfs://***@host/ctr" in out
    assert "secret" not in out + err
    _, _, err = ask(capsys, "--check", text=dataset_text(batch_size="hdfs://me:secret@host/ctr"))
    assert 'not the text "hdfs://***@host/ctr"' in err
    assert "secret" not in err


def test_a_terminal_that_has_no_lines_to_draw(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Path("config.yaml").write_text(runner_text())
    with Path("out").open("w", encoding="ascii") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert main(["train", "-m", "config.yaml", "--explain"]) == 0
    assert "`- r: train on cpu" in Path("out").read_text()


# ---- checks


MODEL = "from umiak.models import ClickModel\n\nclass Model(ClickModel):\n    pass\n"


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model and data for the small config. Paddle is not imported: that takes seconds, and integration tests do it."""
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "paddle" else there(name, *more)
    )
    Path("model.py").write_text(MODEL)
    Path("data").mkdir()
    Path("data", "part").write_text("click:1 1:5\nclick:0 1:6\n")


NO_PADDLE = {
    "code": "UM-TRAIN-062",
    "what": "not looked at: whether model.py can be imported",
    "why": "not installed here: paddle",
    "hint": "check again where it will be trained",
    "where": None,
}


def check(capsys: pytest.CaptureFixture[str], *words: str, text: str = runner_text()) -> tuple[int, list[str]]:
    """The status, and the problems as ``code where what``, with what leads to them where that is said."""
    status, out, err = ask(capsys, "--check", "--json", *words, text=text)
    assert err == ""
    found = json.loads(out)["problems"]
    return status, [f"{each['code']} {each['where'] or ''} {each['what']}" for each in found]


@pytest.mark.usefixtures("whole")
def test_check_without_the_framework(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ask(capsys, "--check")
    assert (status, out) == (0, "")
    assert err.splitlines()[-1] == (
        "config.yaml: nothing is wrong: the config, 1 model and the first lines of 1 dataset were looked at"
    )
    whole = err.splitlines()
    status, out, err = ask(capsys, "--check", "--quiet")
    assert (status, out, err.splitlines()) == (0, "", whole[:-1])
    assert err.startswith("warning: ")
    status, out, err = ask(capsys, "--check", "--json")
    assert (status, json.loads(out), err) == (0, {"problems": [], "warnings": [NO_PADDLE]}, "")


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "UM-TRAIN-013 config.yaml the model's file is not there: model.py"),
        ("class Modell: pass\n", "UM-TRAIN-013 model.py model.py has no class Model"),
        ("class StaticModel: pass\n", "UM-TRAIN-013 model.py model.py has no class Model"),
        ("import os\nclass Model(:\n", "UM-TRAIN-021 model.py:2:13 not Python: SyntaxError: invalid syntax"),
        (
            f"import os\nimport paddle.fluid as fluid\n{MODEL}",
            "UM-TRAIN-060 model.py:2 the model is written for paddle.fluid: `import paddle.fluid as fluid`",
        ),
        (
            f"from paddle import fluid, nn\n{MODEL}",
            "UM-TRAIN-060 model.py:1 the model is written for paddle.fluid: `from paddle import fluid, nn`",
        ),
        (
            f"{MODEL}    @dataclass\n    class Hyper:\n        dim: int\n        size: int = field()\n        rate: float = 1\n",
            "UM-TRAIN-012 config.yaml hyper_parameters.dim is required by the model and missing",
        ),
    ],
)
def test_what_is_wrong_with_a_model(text: str | None, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("model.py")
    path.unlink()
    if text is not None:
        path.write_text(text)
    status, problems = check(capsys)
    assert (status, problems[:1]) == (2, [said])


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import paddle.fluid\nexcept ImportError:\n    fluid = None\n" + MODEL,
        "def old():\n    import paddle.fluid\n" + MODEL,
        "from net import Model\n",
        "from net import *\n",
        "Model = build()\n",
        "if True:\n    class Model: pass\n",
    ],
)
def test_what_the_text_of_a_model_leaves_open(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.py").write_text(text)
    Path("net.py").write_text(MODEL)
    assert check(capsys) == (0, [])


@pytest.mark.usefixtures("whole")
def test_what_is_wrong_with_data(capsys: pytest.CaptureFixture[str]) -> None:
    """The path, what is behind it, and its lines."""
    assert check(capsys, "-o", "dataset.d.data_path=dta") == (
        2,
        ["UM-DATA-006 config.yaml dataset d has no files: dta"],
    )
    part = Path("data", "part")
    part.write_text("click:1 1:5\nclick:1 what\n")
    status, problems = check(capsys)
    assert (status, len(problems)) == (2, 1)
    assert problems[0].startswith("UM-DATA-001 ")
    assert "data/part:2" in problems[0]
    part.write_text("click:1 2:5\n" * 10)
    status, problems = check(capsys)
    assert status == 2
    assert any("slot 1 is declared, and none of the 10 lines" in each for each in problems), problems
    part.write_text("")
    assert check(capsys) == (2, ["UM-TRAIN-019 config.yaml dataset d has no samples: data"])
    part.write_bytes(gzip.compress(b""))
    assert check(capsys) == (2, ["UM-TRAIN-019 config.yaml dataset d has no samples: data"])


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("at", ["data", "data/pipe", "data/p*"])
def test_a_pipe_among_the_data_is_not_waited_for(at: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("data/pipe")
    status, problems = check(capsys, "-o", f"dataset.d.data_path={at}")
    assert (status, problems) == (2, ["UM-DATA-060  data/pipe: not a file, but a named pipe"])


READER = "class Reader:\n    def generate_sample(self, line):\n        yield [('click', [int(line)]), ('1', [3])]\n"


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, "UM-DATA-010", "there is no Python file ./reader.py"),
        ("class Raeder: pass\n", "UM-DATA-010", "./reader.py has no class Reader"),
        ("class Reader(:\n", "UM-DATA-010", "reader.py:1: not Python"),
        ("import nothing_like_it\n" + READER, "UM-DATA-010", "nothing_like_it"),
        ("import os\nos._exit(3)\n", "UM-DATA-0", "ended"),
        (READER, "UM-DATA-0", "invalid literal for int()"),
    ],
)
def test_what_is_wrong_with_a_reader(
    text: str | None, code: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        Path("reader.py").write_text(text)
    status, problems = check(capsys, text=dataset_text(sparse_slots=None, data_converter='"{workspace}/reader.py"'))
    assert (status, len(problems)) == (2, 1), problems
    assert problems[0].startswith(code)
    assert said in problems[0]
    Path("reader.py").write_text(READER)
    Path("data", "part").write_text("1\n0\n")
    assert check(capsys, text=dataset_text(sparse_slots=None, data_converter='"{workspace}/reader.py"')) == (0, [])


@pytest.mark.usefixtures("whole")
def test_everything_that_is_wrong_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.py").write_text("import paddle.fluid\nclass Model: pass\n")
    Path("data", "part").write_text("what\n")
    Path("out").write_text("a file")
    text = runner_text(save_checkpoint_path="out/here", init_model_path="nowhere", save_checkpoint_interval=1)
    status, problems = check(capsys, text=text)
    assert (status, [each.split()[0] for each in problems]) == (
        2,
        ["UM-TRAIN-060", "UM-DATA-001", "UM-TRAIN-016", "UM-TRAIN-017"],
    )
    status, out, err = ask(capsys, "--check", text=text)
    assert (status, out, err.count("error: ")) == (2, "", 4)
    assert "hint: derive class Model from umiak.models.ClickModel" in err


@pytest.mark.usefixtures("whole")
def test_what_a_runner_before_it_makes_is_not_missed(capsys: pytest.CaptureFixture[str]) -> None:
    runner = "- {name: r, class: train, epochs: 1, save_checkpoint_path: out, phases: [p]}\n"
    runner += "- {name: i, class: infer, init_model_path: out, phases: [p]}"
    assert check(capsys, text=small(head="workspace: .\nmode: [r, i]", runner=runner)) == (0, [])
    status, problems = check(capsys, text=small(head="workspace: .\nmode: [i]", runner=runner))
    assert (status, problems) == (2, ["UM-TRAIN-016 config.yaml runner i: no checkpoint is there: out"])


WRONG = small(
    runner="- name: r\n  class: trian\n  epochs: 1\n  epochs: 2",
    dataset='- name: d\n  batch_size: "2"\n  data_path: data\n  sparse_slots: "click 1"',
)


@pytest.mark.parametrize("words", [["--check"], ["--explain"], []])
def test_what_is_wrong(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, *words, text=WRONG) == (
        2,
        "",
        (
            "warning: config.yaml:7:3: epochs is there twice: in line 6 and in line 7 [UM-CONFIG-005]\n"
            "  hint: the last one counts; take the one in line 6 away\n"
            "error: config.yaml:5:10: runner r: class: unknown value: trian [UM-CONFIG-014]\n"
            "  hint: did you mean `train`? it is one of train, infer, local_cluster_train, cluster_train, online_learning\n"
            'error: config.yaml:14:15: dataset d: batch_size must be an integer, not the text "2" [UM-CONFIG-013]\n'
            "  hint: write it without quotes: `batch_size: 2`\n"
        ),
    )


def test_what_is_wrong_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ask(capsys, "--check", "--json", text=WRONG)
    assert (status, err) == (2, "")
    answer = json.loads(out)
    assert [(each["code"], each["where"]) for each in answer["problems"]] == [
        ("UM-CONFIG-014", "config.yaml:5:10"),
        ("UM-CONFIG-013", "config.yaml:14:15"),
    ]
    assert [each["code"] for each in answer["warnings"]] == ["UM-CONFIG-005"]
    status, out, _ = ask(capsys, "--explain", "--json", text=WRONG)
    assert (status, json.loads(out)["plan"]) == (2, None)


def test_an_override_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, "--check", "-o", "runner.epochs=0") == (
        2,
        "",
        "error: -o runner.epochs=0: runner r: epochs: less than 1: 0 [UM-CONFIG-014]\n  hint: expected an integer, 1 or more\n",
    )


# ---- without --explain and --check


def started(text: str, *words: str) -> tuple[dict[str, object], list[str]]:
    """The flags of the launcher and the words of its workers for the only runner of a config."""
    Path("config.yaml").write_text(text, encoding="utf-8")
    parsed = train.parse(["-m", "config.yaml", *words], {})
    (run,) = train.examined(parsed, {}).plan.runs
    return train_start.flags(run, parsed), train_start.worker(run, parsed)


def test_workers_are_started_with_the_same_command() -> None:
    text = runner_text(**{"class": "local_cluster_train"}, epochs=1, server_num=2, worker_num=3)
    flags, worker = started(text, "-o", "runner.epochs=2", "-o", "mode=r", "--resume", "-q")
    assert flags == {"log_dir": "run/r/log", "log_level": "WARNING", "server_num": 2, "trainer_num": 3}
    assert worker == shlex.split(
        "umiak.cli.main train -m config.yaml --run_dir run -o runner.epochs=2 -o 'mode=[\"r\"]' --resume --quiet"
    )


def test_collective_workers_have_no_servers() -> None:
    text = runner_text(**{"class": "local_cluster_train"}, epochs=1, fleet_mode="collective", worker_num=2)
    assert started(text)[0] == {"log_dir": "run/r/log", "log_level": "WARNING", "nproc_per_node": 2}


def test_devices_are_chosen() -> None:
    text = runner_text(**{"class": "local_cluster_train"}, epochs=1, device="gpu", selected_gpus='"2,3"')
    flags, _ = started(text)
    assert reading.of_values(flags, {}, ["train.py"]).options.devices == ("2", "3")


@pytest.mark.parametrize(
    ("kind", "missing", "named", "hint"),
    [
        (
            "train",
            ["numpy", "umiak_native", "paddle"],
            "numpy, umiak's native core, PaddlePaddle",
            "[train]' paddlepaddle",
        ),
        ("train", ["umiak_native"], "umiak's native core", "[train]'"),
        ("local_cluster_train", ["paddle"], "PaddlePaddle", "paddlepaddle, or the build of it for your devices"),
    ],
)
def test_packages_that_are_not_installed(
    kind: str,
    missing: list[str],
    named: str,
    hint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are told before anything is imported or started, all at once, with one command for all."""
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *args: None if name in missing else found(name, *args))
    status, out, err = ask(capsys, text=runner_text(**{"class": kind}, epochs=1))
    assert (status, out) == (2, "")
    error, advice = err.splitlines()
    assert error == f"error: training needs what is not installed: {named} [UM-TRAIN-006]"
    assert advice.replace("]", "]'").replace("''", "'").endswith(hint)


def test_where_not_even_the_config_can_be_read_all_packages_are_named_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = ("yaml", "numpy", "umiak_native", "paddle")
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *args: None if name in missing else found(name, *args))
    status, _, err = ask(capsys, text=runner_text(**{"class": "train"}, epochs=1))
    assert status == 2
    assert "not installed: PyYAML, numpy, umiak's native core, PaddlePaddle [UM-CONFIG-006]" in err
    assert "[train]" in err
    status, _, err = ask(capsys, "--explain", text=runner_text(**{"class": "train"}, epochs=1))
    assert status == 2
    assert "hint: python -m pip install pyyaml\n" in err


def test_a_cluster_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = ask(capsys, text=ASYNC_CLUSTER)
    assert status == 2
    assert "[UM-TRAIN-004]" in err
    assert "write `class: local_cluster_train`" in err


# ---- the command line


NO_CONFIG = (
    "error: {}: can't be read: No such file or directory [UM-CONFIG-001]\n"
    "  hint: name a config's file or directory, or a model of the zoo: `-m umiak.models.rank.dnn`\n"
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            [],
            "error: nothing to train: -m is missing [UM-TRAIN-001]\n  hint: name a config: `umiak train -m config.yaml`\n",
        ),
        (
            ["config.yaml"],
            (
                "error: unexpected argument: config.yaml [UM-CLI-005]\n"
                "  hint: did you mean `umiak train -m config.yaml`? `umiak train --help` lists all flags\n"
            ),
        ),
        (
            ["-m"],
            (
                "error: missing value: -m [UM-CLI-002]\n"
                "  hint: write `-m CONFIG`, or `-m=CONFIG` if the value begins with a dash\n"
                "error: nothing to train: -m is missing [UM-TRAIN-001]\n  hint: name a config: `umiak train -m config.yaml`\n"
            ),
        ),
        (
            ["-m", "x", "--explian"],
            (
                "error: unknown flag: --explian [UM-CLI-001]\n"
                "  hint: did you mean `--explain`? `umiak train --help` lists all flags\n"
            ),
        ),
        (
            ["-m", "x", "-x"],
            "error: unknown flag: -x [UM-CLI-001]\n  hint: `umiak train --help` lists all flags\n",
        ),
        (
            ["-m", "x", "--quiet", "--verbose"],
            "error: unknown flag: --verbose [UM-CLI-001]\n  hint: `umiak train --help` lists all flags\n",
        ),
        (
            ["-m", "x", "-b", "backend.yaml", "--on", "lab"],
            "error: --on lab and -b backend.yaml [UM-TRAIN-005]\n  hint: each names a place: say one of them\n",
        ),
        (
            ["-m", "x", "--nnodes", "2"],
            "error: --nnodes without a place [UM-TRAIN-005]\n  hint: add `--on PLACE` or `-b backend.yaml`\n",
        ),
        (["-m", "x", "--explain", "--check"], "error: --explain and --check [UM-TRAIN-005]\n  hint: say one of them\n"),
        (["-m", "no.yaml"], NO_CONFIG.format("no.yaml")),
        (
            ["-m", "no/no.yaml"],
            (
                "error: no/no.yaml: can't be read: No such file or directory [UM-CONFIG-001]\n"
                "  hint: the directory is not there either: no\n"
            ),
        ),
    ],
)
def test_a_wrong_request(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words]) == 2
    assert capsys.readouterr().err == expected


# ---- what starting costs


@pytest.mark.parametrize(
    "code",
    [
        "import umiak.cli.train; umiak.cli.train.parse(['-m', 'x', '-o', 'a=1'], {})",
        "import umiak.cli.texts.help_text; umiak.cli.texts.help_text.of('train')",
        "import umiak.cli.train, umiak.train.config.load, umiak.train.plan.plan, umiak.train.plan.explain",
    ],
)
def test_yaml_and_everything_heavy_wait_until_they_are_needed(code: str) -> None:
    assert modules_after(code) & (HEAVY | {"yaml", "numpy", "paddle"}) == set()

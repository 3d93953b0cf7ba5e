"""The engine for `dygraph_model.py`: it learns as a plain loop does, and its files come and go."""

from __future__ import annotations

import importlib.util
import math
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import dygraph_helpers as models
from tests.support.paths import ROOT
from umiak.core.problem import UmiakError
from umiak.train.checkpoints import paddlerec
from umiak.train.reading.batches import StackedBatch

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]

STEPPING = "self.schedule.step()"
OWN_PASS = "(0.1 * dy_model.embedding(self.create_feeds(batch_data, config)[1][0]).square().mean()).backward()"
OPTIMIZERS = {
    "sgd": {"optimizer": models.SGD},
    "adam": {"optimizer": models.ADAM},
    "lazy adam": {"optimizer": models.LAZY},
    "schedule and clip": {"optimizer": models.CLIPPED, "stepping": STEPPING},
    "tied weights": {"optimizer": models.LAZY, "more": models.TIED},
    "a backward pass of its own": {"optimizer": models.LAZY, "stepping": OWN_PASS},
    "a loss of several numbers": {
        "optimizer": models.LAZY,
        "stepping": "loss = F.cross_entropy(logits, label, reduction='none')",
    },
    "gradients of its own": {"optimizer": models.LAZY, "stepping": "loss.backward(); loss = paddle.ones([3, 3])"},
    "rows by values": {"optimizer": models.LAZY, "init": "Assign([[0.1, 0.2, -0.1, 0.0]] * rows)"},
}


def engine(directory: Path, **more: Any) -> Any:
    """For the model of a directory, with its tables in this process."""
    import yaml

    from umiak.ps.environment import PsSeat
    from umiak.ps.options import SessionOptions
    from umiak.ps.sessions import Session
    from umiak.ps.strategies import Sync
    from umiak.train.config.values import Slots
    from umiak.train.engines import choice
    from umiak.train.engines.engine import EngineOptions, EngineRequest

    written = yaml.safe_load((directory / "config.yaml").read_text())
    wanted = EngineRequest(
        model=str(directory / "dygraph_model.py"),
        slots=Slots(),
        job=Session(PsSeat(), Sync(), SessionOptions()),
        options=EngineOptions(seed=11, written=written),
        where=str(directory / "config.yaml"),
        **more,
    )
    return choice.framework().engine(wanted)


def stacked(batch: list[Any]) -> StackedBatch:
    return StackedBatch(size=len(batch[0]), arrays=tuple(batch))


def learned(made: Any, batches: list[list[Any]], first: int = 0) -> tuple[list[float], Any]:
    metrics = made.metric_set()
    return [made.learn(stacked(each), metrics, step=first + at) for at, each in enumerate(batches)], metrics


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_alone_it_learns_as_a_plain_loop(kind: str, tmp_path: Path) -> None:
    # Without BatchNorm, which makes rounding grow: with it, two plain loops whose first weights differ by 1e-7 drift apart, too.
    batches = models.story(tmp_path, samples=480, norm="x", **OPTIMIZERS[kind])
    made = engine(tmp_path, sample=lambda: stacked(batches[0]))
    found, metrics = learned(made, batches)
    expected: dict[str, Any] = {}
    losses, aucs = models.plain_losses(tmp_path / "dygraph_model.py", batches, epochs=1, state=expected)
    apart = np.abs(np.array(found) - losses).max()
    weights = made.weights()
    assert list(weights) == list(expected)
    if kind == "adam":
        # Without lazy_mode, five plain loops of Paddle were apart by up to 2e-3 themselves, and ours was one of their results.
        assert apart < 1e-2
        return
    assert apart < 1e-5
    assert metrics.readings().epoch["auc"] == pytest.approx(aucs[0], abs=1e-4)
    assert max(np.abs(weights[name] - expected[name]).max() for name in expected) < 1e-4


def test_a_weight_that_is_used_elsewhere_stays_a_parameter(tmp_path: Path) -> None:
    batches = models.story(tmp_path, samples=64, optimizer=models.LAZY, more=models.TIED)
    assert engine(tmp_path, sample=lambda: stacked(batches[0])).table_names == ()


def test_the_trial_batch_knows_what_the_code_remembers_and_leaves_no_trace(tmp_path: Path) -> None:
    batches = models.story(tmp_path, samples=64, stepping="self.seen.append(float(loss * self.scale))")
    file = tmp_path / "dygraph_model.py"
    file.write_text(file.read_text().replace("return net.", "self.scale, self.seen = 1.0, []; return net."))
    made = engine(tmp_path, sample=lambda: stacked(batches[0]))
    found, _ = learned(made, batches)
    assert made.code._user.seen == found


def test_the_weights_are_those_that_paddlerec_reads(tmp_path: Path) -> None:
    import paddle

    from umiak.train.checkpoints import runs
    from umiak.train.checkpoints.progress import Progress

    batches = models.story(tmp_path, samples=96, optimizer=models.CLIPPED, stepping=STEPPING)
    made = engine(tmp_path)
    learned(made, batches)
    saved = str(tmp_path / "saved" / "0")
    progress = Progress(runner="train", mode="alone", trainers_in_all=1, seed=11, epoch=1, stage=0)
    made.buffers.store(Alone())
    runs.save(made.job, saved, progress)
    made.write_weights(saved)
    there = paddle.load(f"{saved}/rec.pdparams")
    ours = made.weights()
    assert {name: np.array_equal(each.numpy(), ours[name]) for name, each in there.items()} == dict.fromkeys(ours, True)
    assert paddle.load(f"{saved}/rec.pdopt")["LR_Scheduler"]["last_epoch"] == 3
    # The same files without what is ours are PaddleRec's own.
    theirs = tmp_path / "theirs" / "0"
    theirs.mkdir(parents=True)
    os.rename(f"{saved}/rec.pdparams", theirs / "rec.pdparams")
    other = engine(tmp_path)
    assert other.takes_weights(str(theirs))
    other.take_weights(str(theirs))
    assert all(np.array_equal(each, ours[name]) for name, each in other.weights().items())
    assert learned(other, batches)[0] != learned(engine(tmp_path), batches)[0]
    assert runs.models_below(str(tmp_path / "theirs"), (0, 1)) == (str(theirs),)
    # A checkpoint of ours brings the schedule and the running statistics along.
    third = engine(tmp_path)
    runs.start_from(third.job, saved, third.tables())
    third.restore()
    assert third.optimizer.get_lr() == made.optimizer.get_lr()
    assert learned(third, batches, 3)[0] == learned(made, batches, 3)[0]


def test_the_weights_take_no_more_memory_than_they_have(tmp_path: Path) -> None:
    models.story(tmp_path, samples=32, optimizer=models.ADAM)
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace(f"rows: {models.ROWS}", "rows: 2000000"))
    made = engine(tmp_path)
    before = resident_bytes()
    weights = made.weights()
    assert sum(each.nbytes for each in weights.values()) > 32_000_000
    # All parameters lie in one array: each of seven would bring all of it.
    assert resident_bytes() - before < 3 * 32_000_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Alone:
    """No other trainers."""

    world = 1
    is_first = True

    def tell(self, message: dict[str, Any], name: str = "tell") -> list[dict[str, Any]]:
        return [message]

    def add(self, vector: Any) -> Any:
        return vector


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    import paddle

    models.story(tmp_path, samples=32)
    made = engine(tmp_path)
    (tmp_path / "other").mkdir()
    paddle.save({"embedding.weight": paddle.zeros([3, 4])}, str(tmp_path / "other" / "rec.pdparams"))
    with pytest.raises(UmiakError, match=r"embedding\.weight has the shape") as caught:
        made.take_weights(str(tmp_path / "other"))
    assert "hidden.weight is not in it" in str([each.what for each in caught.value.problems])


class Harm:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


@pytest.mark.parametrize(
    "harm", [Harm(), {"weight": [Harm()]}, np.array([Harm()], object)], ids=["itself", "inside", "in an array"]
)
def test_weights_run_no_code(harm: Any, tmp_path: Path) -> None:
    (tmp_path / "rec.pdparams").write_bytes(pickle.dumps(harm))
    with pytest.raises(UmiakError) as caught:
        paddlerec.weights(tmp_path)
    assert "system, and only arrays are read" in (caught.value.problems[0].why or "")
    (tmp_path / "rec.pdparams").write_bytes(b"\x80\x04no")
    with pytest.raises(UmiakError, match="can't be read"):
        paddlerec.weights(tmp_path)


def test_a_model_that_can_not_be_traced(tmp_path: Path) -> None:
    from umiak.train.checkpoints import runs
    from umiak.train.checkpoints.progress import Progress

    batches = models.story(tmp_path, samples=32, more=" * float(numbers.numpy().sum() > 0)")
    made = engine(tmp_path)
    saved = str(tmp_path / "saved" / "0")
    made.buffers.store(Alone())
    runs.save(made.job, saved, Progress(runner="train", mode="alone", trainers_in_all=1, seed=11, epoch=1, stage=0))
    with pytest.raises(UmiakError, match="can't be traced"):
        made.export(str(tmp_path / "inference"), saved, sample=lambda: stacked(batches[0]))


def test_a_loss_of_the_shape_1_learns(tmp_path: Path) -> None:
    """Whatever numpy says about arrays of one number."""
    batches = models.story(tmp_path, samples=64, optimizer=models.SGD, stepping="loss = loss.reshape([1])")
    losses, _ = models.plain_losses(tmp_path / "dygraph_model.py", batches, epochs=1)
    found, _ = learned(engine(tmp_path, sample=lambda: stacked(batches[0])), batches)
    assert found == pytest.approx(losses, abs=1e-6)


def test_a_failure_of_a_newer_numpy_is_told_as_one(tmp_path: Path) -> None:
    said = "only 0-dimensional arrays can be converted to Python scalars"
    batches = models.story(tmp_path, samples=64, stepping=f"raise TypeError({said!r})")
    made = engine(tmp_path)
    with pytest.raises(UmiakError) as failed:
        learned(made, batches)
    assert "numpy<2.4" in (failed.value.problems[0].hint or "")


def test_the_pinned_numpy_takes_an_array_of_one_number_as_a_scalar() -> None:
    """As helpers of PaddleRec do, and PaddlePaddle 3.3.1 in `float(tensor)`."""
    pins = dict(each.split("==") for each in (ROOT / "constraints.txt").read_text().splitlines() if "==" in each)
    assert tuple(map(int, pins["numpy"].split(".")[:2])) < (2, 4)
    if np.__version__ == pins["numpy"]:
        assert math.sqrt(np.array([4.0])) == 2.0


def test_failures_have_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches = models.story(tmp_path, samples=32, more=" + undefined")
    with pytest.raises(UmiakError) as caught:
        learned(engine(tmp_path), batches)
    (problem,) = caught.value.problems
    line = next(at for at, text in enumerate((tmp_path / "net.py").read_text().splitlines(), 1) if "undefined" in text)
    assert problem.where == f"{tmp_path / 'net.py'}:{line}"
    assert "NameError" in problem.what
    assert "dygraph_model.py" in capsys.readouterr().err


def test_two_models_have_each_its_net(tmp_path: Path) -> None:
    batches = models.story(tmp_path / "a", samples=32)
    models.story(tmp_path / "b", samples=32, more=" * 2")
    first, second = engine(tmp_path / "a"), engine(tmp_path / "b")
    one, two = (learned(each, batches)[0][0] for each in (first, second))
    assert one != two
    lazily = "import net; assert net.__file__.startswith(config['config_abs_dir'])"
    for name in "ab":
        models.write_model(tmp_path / name, stepping=lazily, more=" * 2" if name == "b" else "")
    first, second = engine(tmp_path / "a"), engine(tmp_path / "b")
    assert [learned(each, batches)[0][0] for each in (first, second, first)][:2] == [one, two]


def test_metrics_and_what_is_shown(tmp_path: Path) -> None:
    batches = models.story(tmp_path, samples=96)
    made = engine(tmp_path)
    _, metrics = learned(made, batches)
    told = metrics.readings()
    assert list(told.epoch) == ["loss", "auc", "acc", "largest"]
    evaluated = made.metric_set()
    for each in batches:
        made.evaluate(stacked(each), evaluated)
    assert list(evaluated.readings().epoch) == ["auc", "acc"]


def test_auc_without_a_loop_counts_the_same() -> None:
    import paddle

    from umiak.train.engines.fast_metrics import quickened

    random = np.random.default_rng(5)
    likely = random.random((500, 2)).astype(np.float32)
    labels = random.integers(0, 2, (500, 1))
    plain, quick = paddle.metric.Auc(), quickened(paddle.metric.Auc())
    for each in (plain, quick):
        each.update(likely, labels)
        each.update(preds=paddle.to_tensor(likely), labels=paddle.to_tensor(labels))
    assert np.array_equal(plain._stat_pos, quick._stat_pos)
    assert np.array_equal(plain._stat_neg, quick._stat_neg)
    assert plain.accumulate() == quick.accumulate()


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (("return loss, metrics_list, {", "return loss, {"), "train_forward returned a tuple of 2"),
        (("return loss, metrics_list", "return label, metrics_list"), "depends on no parameter"),
        (("return loss, metrics_list", "return label[:0], metrics_list"), "which holds no number"),
        (("def create_metrics(", "def metrics("), "has no create_metrics"),
        (('["auc", "acc"]', '["auc", "acc", "more"]'), "create_metrics names 3 metrics, and returns 2"),
        (("return net.Scorer(", "return str("), "create_model returned"),
        (("class DygraphModel", "class Dygraph"), "has no class"),
    ],
)
def test_what_is_wrong_with_a_model(changed: tuple[str, str], what: str, tmp_path: Path) -> None:
    batches = models.story(tmp_path, samples=32)
    file = tmp_path / "dygraph_model.py"
    text = file.read_text()
    assert changed[0] in text
    file.write_text(
        text.replace(*changed).replace('str(get("rows"), get("dim"), get("fc_sizes")[0], get("sparse"))', "str()")
    )
    with pytest.raises(UmiakError, match=what):
        learned(engine(tmp_path), batches)


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    batches = models.story(tmp_path, samples=32, more=" * float('nan')")
    with pytest.raises(UmiakError, match="predictions are not finite"):
        learned(engine(tmp_path), batches)
    models.story(tmp_path / "loss", samples=32, stepping="loss = loss * float('nan')")
    with pytest.raises(UmiakError, match="the loss is NaN at step 0"):
        learned(engine(tmp_path / "loss"), batches)
    models.story(tmp_path / "detached", samples=32, more=".detach()")
    with pytest.raises(UmiakError, match="depends on no parameter"):
        learned(engine(tmp_path / "detached"), batches)


def test_a_model_that_sets_gradients_itself_shows_its_own_loss(tmp_path: Path) -> None:
    text = "loss.backward(); return paddle.ones([5, 5]), metrics_list, {'loss': loss}"
    batches = models.story(tmp_path / "own", samples=64, stepping=text)
    models.story(tmp_path / "usual", samples=64)
    found, metrics = learned(engine(tmp_path / "own"), batches)
    expected, _ = learned(engine(tmp_path / "usual"), batches)
    assert found == pytest.approx(expected, abs=1e-6)
    assert metrics.readings().epoch["loss"] == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("said", "is_lazy"), [(True, True), ("true", True), ("True", True), (False, False), ("0", False)]
)
def test_a_switch_may_come_from_the_command_line(said: object, is_lazy: bool) -> None:
    from umiak.train.engines.dygraph_learning import choice_of

    assert choice_of({"runner.lazy_embeddings": said}).lazy is is_lazy
    assert not choice_of({}).lazy

"""Training on tables: every row once in every strategy, whatever is killed; the same bits after a stop; one lock for training, evaluation and prediction."""

from __future__ import annotations

import csv
import http.server
import importlib.util
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from testbed.pytest_support import require
from tests.support import chance, forked_trials, train_runs
from tests.support.train_runs import Work, slow

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle"), pytest.mark.timeout(180)]

ROWS = 1200
TRAINED = 900
"""Those before the border of time."""
EPOCHS = 2
PACE_S = 0.02

FEATURES = """
features:
  label: click
  time: at
  group: user
  columns:
  - {name: user, kind: id}
  - {name: item, kind: id, vocab: {fit: {min_count: 2}}}
  - {name: price, kind: number, transform: [log1p, zscore], missing: mean}
  - {name: range, kind: number, from: price, boundaries: {quantiles: 5}}
  - {name: seen, kind: sequence, of: item, separator: "|", max_len: 4}
""".replace("{fit: {min_count: 2}}", "{min_count: 2}")

RUNNER = "epochs: 2, seed: 1, phases: [train], evaluate_phase: test, print_interval: 5, save_step_interval: 3"
CONFIG = f"""\
workspace: "./"
mode: [alone]
runner:
- {{name: alone, class: train, save_checkpoint_path: out/alone, save_step_path: steps/alone, save_inference_path: served, {RUNNER}}}
- {{name: collective, class: local_cluster_train, worker_num: 2, fleet_mode: collective, save_checkpoint_path: out/collective, save_step_path: steps/collective, {RUNNER}}}
STRATEGIES
- {{name: infer, class: infer, init_model_path: out/alone, phases: [test]}}
phase:
- {{name: train, model: "{{workspace}}/model.py", dataset_name: train}}
- {{name: test, model: "{{workspace}}/model.py", dataset_name: test}}
dataset:
- {{name: train, data_path: data, batch_size: 64, rows_before: {TRAINED}}}
- {{name: test, data_path: data, batch_size: 200, rows_after: {TRAINED}}}
hyper_parameters: {{dim: 4, optimizer: {{class: Adam, learning_rate: 0.02}}}}
{FEATURES}"""


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def strategies() -> str:
    lines = []
    for name in ("sync", "hybrid", "async", "half_async", "geo"):
        paths = f"save_checkpoint_path: out/{name}, save_step_path: steps/{name}"
        more = ", geo_step: 3" if name == "geo" else ""
        lines.append(
            f"- {{name: {name}, class: local_cluster_train, worker_num: 2, server_num: 2, distribute_strategy: {name}{more}, {paths}, {RUNNER}}}"
        )
    return "\n".join(lines)


def write(directory: Path, kind: str) -> None:
    """Rows in three files, with the time 0, 1, 2, ... one after the other."""
    rng = np.random.default_rng(5)
    users, items = rng.integers(0, 40, ROWS), rng.integers(0, 30, ROWS)
    weights = rng.normal(size=(2, 40))
    logits = 2 * weights[0, users] + 2 * weights[1, items]
    rows = {
        "click": (rng.random(ROWS) < 1 / (1 + np.exp(-logits))).astype(int).tolist(),
        "at": list(range(ROWS)),
        "user": [f"u{each}" for each in users],
        "item": [f'i"{each}"\n' if each % 5 == 0 else f"i{each}" for each in items],
        "price": [None if number % 11 == 0 else float(number % 97) for number in range(ROWS)],
        "seen": [[f"i{each}" for each in rng.integers(0, 30, number % 6)] for number in range(ROWS)],
    }
    directory.mkdir()
    for number, (start, end) in enumerate(((0, 500), (500, 650), (650, ROWS))):
        part = {name: column[start:end] for name, column in rows.items()}
        if kind == "parquet":
            parquet.write_table(pa.table(part), directory / f"part-{number}.parquet", row_group_size=70)
            continue
        with (directory / f"part-{number}.csv").open("w", newline="") as file:
            made = csv.writer(file)
            made.writerow(part)
            for row in zip(*part.values(), strict=True):
                made.writerow(
                    ["|".join(each) if isinstance(each, list) else "" if each is None else each for each in row]
                )


def filled(path: Path, kind: str) -> Work:
    work = Work(path)
    work.config.write_text(CONFIG.replace("STRATEGIES", strategies()))
    (path / "model.py").write_text(train_runs.MODEL)
    write(path / "data", kind)
    return work


@pytest.fixture
def work(tmp_path: Path, request: pytest.FixtureRequest) -> Work:
    return filled(tmp_path, getattr(request, "param", "parquet"))


def rows_of(work: Work, runner: str) -> list[int]:
    return [row["samples"] for row in work.epochs(runner)]


# ---- every row once


@pytest.mark.parametrize(
    ("work", "runner", "whom"),
    [
        ("parquet", "sync", "trainer"),
        ("csv", "sync", "server"),
        ("csv", "collective", "everything"),
        ("parquet", "async", "trainer"),
        ("csv", "half_async", "server"),
        ("parquet", "geo", "server"),
        ("csv", "hybrid", "trainer"),
    ],
    indirect=["work"],
)
def test_every_row_is_learned_once_whatever_is_killed(work: Work, runner: str, whom: str) -> None:
    moment = chance().randrange(3, 12)
    started = work.start(runner, env=slow(PACE_S))
    started.until(lambda: work.paced() >= moment, "some batches")
    started.kill(whom)
    started.end()
    shuffled = ["-o", f"runner.{runner}.shuffle=0"]
    done = work.run_forked(
        runner, *(["--resume"] if work.names("steps", runner) or work.names("out", runner) else []), *shuffled
    )
    assert done.status == 0, done.said
    assert rows_of(work, runner) == [TRAINED] * EPOCHS
    assert work.epochs(runner)[-1]["evaluated"]["auc"] > 0.6


def test_parquet_and_csv_teach_the_very_same(tmp_path: Path) -> None:
    found = {}
    for kind in ("parquet", "csv"):
        (tmp_path / kind).mkdir()
        work = filled(tmp_path / kind, kind)
        done = work.here("alone")
        assert done.status == 0, done.said
        found[kind] = work.checkpoint("out", "alone", "1"), (work.path / "features.lock.json").read_bytes()
    assert found["parquet"] == found["csv"]


@pytest.mark.parametrize("shuffle", ["0", "300"])
def test_asked_to_stop_it_goes_on_to_the_same_bits(tmp_path: Path, shuffle: str) -> None:
    words = ("-o", f"runner.alone.shuffle={shuffle}")
    (tmp_path / "whole").mkdir()
    (tmp_path / "work").mkdir()
    whole, work = filled(tmp_path / "whole", "parquet"), filled(tmp_path / "work", "parquet")
    assert whole.here("alone", *words).status == 0
    for _ in range(2):
        moment = work.paced() + chance().randrange(2, 9)
        resume = ["--resume"] if work.names("steps", "alone") else []
        started = work.fork("alone", *resume, *words, env=slow(PACE_S))
        started.until(lambda moment=moment: work.paced() >= moment, "some batches")  # type: ignore[misc]
        started.signal(chance().choice([signal.SIGTERM, signal.SIGKILL]))
        started.end()
    done = work.here("alone", "--resume" if work.names("steps", "alone") else "--quiet", *words)
    assert done.status == 0, done.said
    assert work.checkpoint("out", "alone", "1") == whole.checkpoint("out", "alone", "1")
    assert rows_of(work, "alone") == [TRAINED] * EPOCHS


def test_with_servers_it_goes_on_in_the_middle_of_an_epoch_to_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "work").mkdir()
    whole, work = filled(tmp_path / "whole", "parquet"), filled(tmp_path / "work", "parquet")
    words = ("-o", "runner.sync.shuffle=300")
    assert whole.run_forked("sync", *words).status == 0
    asked = ["train", "-m", "config.yaml", "-o", "mode=sync", *words]
    started = train_runs.Forked(work.path, asked, slow(PACE_S), with_workers=True)
    assert started.until(lambda: work.names("steps", "sync"), "a checkpoint within an epoch")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.status != 0, done.said
    done = work.run_forked("sync", "--resume", *words)
    assert done.status == 0, done.said
    assert "resuming from" in done.said, done.said
    assert work.checkpoint("out", "sync", "1") == whole.checkpoint("out", "sync", "1")
    assert rows_of(work, "sync") == [TRAINED] * EPOCHS


# ---- by URL


class RangesHandler(http.server.BaseHTTPRequestHandler):
    """Serves a directory, by range where that is asked for; ``taken`` has what was asked for."""

    root = Path()
    taken: list[tuple[str, str]] = []

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self.wfile.write(self._answer())

    def _answer(self) -> bytes:
        path = self.root / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return b""
        body, asked = path.read_bytes(), self.headers.get("Range", "")
        self.taken.append((self.command, asked))
        whole = len(body)
        self.send_response(206 if asked else 200)
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            body = body[int(first) : int(last) + 1 if last else None]
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{whole}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return body

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, type[RangesHandler]]]:
    kind = type("OwnHandler", (RangesHandler,), {"root": tmp_path / "web", "taken": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", kind
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("kind", "runner"), [("parquet", "alone"), ("csv", "alone"), ("parquet", "sync")])
def test_a_table_behind_a_url_teaches_what_a_file_does(
    tmp_path: Path, kind: str, runner: str, served: tuple[str, type[RangesHandler]]
) -> None:
    url, handler = served
    web = tmp_path / "web"
    web.mkdir()
    parts = tmp_path / "parts"
    found: dict[str, object] = {}
    for where in ("file", "url"):
        (tmp_path / where).mkdir()
        work = filled(tmp_path / where, kind)
        if where == "file":
            (work.path / "data").rename(parts)
            one = web / f"day.{kind}"
            if kind == "csv":
                texts = [path.read_text().partition("\n") for path in sorted(parts.iterdir())]
                one.write_text(texts[0][0] + "\n" + "".join(rows for _, _, rows in texts))
            else:
                tables = [parquet.read_table(path) for path in sorted(parts.iterdir())]
                parquet.write_table(pa.concat_tables(tables), one, row_group_size=450)
        path = str(web / f"day.{kind}") if where == "file" else f"{url}/day.{kind}"
        words = ["-o", f"dataset.train.data_path={path}", f"dataset.test.data_path={path}"]
        words += [f"runner.{runner}.{each}" for each in ("epochs=1", "save_step_interval=-1")]
        words += ["runner.alone.save_inference_path=null"]
        done = work.here("alone", *words) if runner == "alone" else work.run_forked(runner, *words)
        assert done.status == 0, done.said
        assert rows_of(work, runner) == [TRAINED]
        found[where] = work.checkpoint("out", runner, "0")
    assert found["url"] == found["file"]
    ranges = [asked for command, asked in handler.taken if command == "GET"]
    assert ranges
    assert not [asked for asked in ranges if not asked], handler.taken


# ---- a sequence by its name


def test_din_takes_its_sequence_of_a_table_by_name(tmp_path: Path) -> None:
    """Beside the same ids as slot text: the very same model. What is learned is nothing but whether the item was seen before."""
    rng = np.random.default_rng(3)
    rows = 3000
    items = rng.integers(0, 12, rows)
    seen = [[int(each) for each in rng.integers(0, 12, number % 5)] for number in range(rows)]
    clicks = [int(items[row] in seen[row]) for row in range(rows)]
    table = pa.table(
        {
            "click": clicks,
            "article": [f"a{each}" for each in items],
            "read": [[f"a{each}" for each in row] for row in seen],
        }
    )
    config = """\
runner: {model: rank.din, train_data_dir: DATA, train_batch_size: 100, epochs: 4, seed: 1, evaluate_data_dir: DATA, model_save_path: out}
hyper_parameters:
  optimizer: {class: Adam, learning_rate: 0.02}
  item_emb_size: 8
  attention_sizes: [16]
  fc_sizes: [16]
  item_slot: article
  cat_slot: ""
  hist_item_slot: read
"""
    features = """\
features:
  label: click
  columns:
  - {name: article, kind: id, vocab: {words: [WORDS]}}
  - {name: read, kind: sequence, of: article, max_len: 50}
""".replace("WORDS", ", ".join(f"a{each}" for each in range(12)))
    from umiak.data.features.transform import keys_of

    keys = dict(enumerate(keys_of("article", np.arange(3, 15, dtype=np.uint64)).view(np.int64).tolist()))
    found = {}
    for kind in ("table", "slots"):
        work = Work(tmp_path / kind)
        (work.path / "data").mkdir(parents=True)
        if kind == "table":
            parquet.write_table(table, work.path / "data" / "log.parquet", row_group_size=500)
        else:
            lines = [
                " ".join(
                    [f"click:{click}", f"article:{keys[int(item)]}", *(f"read:{keys[each]}" for each in row or [])]
                )
                for click, item, row in zip(clicks, items, seen, strict=True)
                if row
            ]
            (work.path / "data" / "log").write_text("\n".join(lines) + "\n")
        text = config.replace("DATA", "data")
        work.config.write_text(
            text + features
            if kind == "table"
            else text.replace("seed: 1", 'seed: 1, sparse_slots: "click article read"')
        )
        if kind == "table":
            keep = pa.array([bool(row) for row in seen])
            parquet.write_table(table.filter(keep), work.path / "data" / "log.parquet", row_group_size=500)
        done = work.here("train")
        assert done.status == 0, done.said
        found[kind] = work.checkpoint("out", "3"), work.epochs("train")[-1]["evaluated"]["auc"]
    assert found["table"] == found["slots"]
    assert found["table"][1] > 0.7, "without the sequence nothing can be known"  # type: ignore[operator]


def test_a_sequence_that_din_does_not_find_is_named(tmp_path: Path) -> None:
    work = filled(tmp_path, "parquet")
    din = "-o", "phase.train.model=MODEL"
    from umiak.models.rank.din import model

    words = [each.replace("MODEL", model.__file__) for each in din]
    hyper = '{item_slot: item, cat_slot: "", hist_item_slot: sene, optimizer: {class: Adam}}'
    done = work.here("alone", *words, f"hyper_parameters={hyper}")
    assert done.status != 0
    assert "UM-TRAIN-011" in done.said
    assert "did you mean `seen`?" in done.said


# ---- weights


@pytest.mark.parametrize("runner", ["train", "sync"])
def test_weights_of_samples_and_classes_are_those_of_a_loss_written_in_numpy(tmp_path: Path, runner: str) -> None:
    from umiak.data.features.transform import keys_of
    from umiak.ps import export

    rng = np.random.default_rng(8)
    rows, users, batch, rate, decay = 320, 7, 40, 0.5, 0.05
    user = rng.integers(0, users, rows)
    clicks, weights = rng.integers(0, 2, rows), np.round(rng.random(rows) * 4, 2)
    work = Work(tmp_path / "work")
    (work.path / "data").mkdir(parents=True)
    table = pa.table({"click": clicks, "user": [f"u{each}" for each in user], "w": weights})
    parquet.write_table(table, work.path / "data" / "log.parquet")
    servers = ", sync_mode: sync, worker_num: 1, server_num: 2" if runner == "sync" else ""
    work.config.write_text(f"""\
runner: {{model: rank.lr, train_data_dir: data, train_batch_size: {batch}, epochs: 2, seed: 1, model_save_path: out{servers}}}
hyper_parameters: {{optimizer: {{class: SGD, learning_rate: {rate}}}}}
objective: {{class_weights: {{click: [0.5, 3]}}, embedding_decay: {decay}}}
features:
  label: click
  weight: w
  columns:
  - {{name: user, kind: id, vocab: [{", ".join(f"u{each}" for each in range(users))}]}}
""")
    done = work.here("train") if runner == "train" else work.run_forked("train")
    assert done.status == 0, done.said
    row, bias, losses = np.zeros(users), 0.0, []
    counts = weights * np.where(clicks == 1, 3.0, 0.5)
    for _ in range(2):
        for at in range(0, rows, batch):
            own, labels, count = user[at : at + batch], clicks[at : at + batch], counts[at : at + batch]
            logit = row[own] + bias
            losses.append(np.mean(count * (np.log1p(np.exp(logit)) - labels * logit)))
            slope = count * (1 / (1 + np.exp(-logit)) - labels) / len(own)
            bias -= rate * slope.sum()
            gradient = np.bincount(own, slope, users)
            row -= rate * np.where(np.isin(np.arange(users), own), gradient + decay * row, 0.0)
    keys, found = export.rows(str(work.path / "out" / "1"), "wide")
    expected = dict(zip(keys_of("user", np.arange(3, 3 + users, dtype=np.uint64)).tolist(), row, strict=True))
    assert dict(zip(keys.tolist(), found[:, 0].tolist(), strict=True)) == pytest.approx(expected, abs=1e-5)
    half = len(losses) // 2
    told = [each["trained"]["loss"] for each in work.epochs("train")]
    assert told == pytest.approx([np.mean(losses[:half]), np.mean(losses[half:])], rel=1e-4)


# ---- the lock


def test_one_lock_for_training_evaluation_and_prediction(work: Work) -> None:
    done = work.here("alone")
    assert done.status == 0, done.said
    assert "fits features to dataset train" in done.said
    lock = (work.path / "features.lock.json").read_bytes()
    for kept in ("out/alone/0", "out/alone/1", "served/1"):
        assert (work.path / kept / "features.lock.json").read_bytes() == lock
    again = work.here("alone", "--resume")
    assert "fits features" not in again.said
    evaluated = work.epochs("alone")[-1]["evaluated"]
    assert work.here("infer").status == 0
    assert work.metrics("infer")[-1]["evaluated"]["auc"] == evaluated["auc"]
    # Without the file beside the config, that of the model is used.
    (work.path / "features.lock.json").unlink()
    assert work.here("infer").status == 0
    # One that was fitted to other data is refused.
    other = filled_lock(work)
    (work.path / "features.lock.json").write_bytes(other)
    done = work.here("infer")
    assert (done.status, "UM-TRAIN-600" in done.said) == (2, True), done.said
    done = work.here("alone", "--resume", "-o", "runner.alone.epochs=3")
    assert (done.status, "UM-TRAIN-600" in done.said) == (2, True), done.said


def filled_lock(work: Work) -> bytes:
    """The lock of the same features and less data."""
    from umiak.cli.main import main

    for path in sorted((work.path / "data").iterdir())[1:]:
        path.unlink()
    with train_runs._inside(work.path):
        assert main(["features", "fit", "-m", "config.yaml", "--data", "data"]) == 0
    return (work.path / "features.lock.json").read_bytes()


def test_the_lock_has_the_same_bytes_however_many_trainers_make_it(tmp_path: Path) -> None:
    found = []
    for number, words in enumerate((["alone"], ["sync", "-o", "runner.sync.worker_num=3"], ["collective"])):
        (tmp_path / str(number)).mkdir()
        work = filled(tmp_path / str(number), "csv")
        epochs = f"runner.{words[0]}.epochs=1"
        done = work.run_forked(*words, "-o", epochs, "-o", "dataset.train.rows_share=[0, 0.8]")
        assert done.status == 0, done.said
        trained = work.epochs(words[0])[0]["samples"]
        files = {path.name: path.read_bytes() for path in work.path.glob("features.*")}
        assert f'"rows": {trained},'.encode() in files["features.lock.json"], "of the rows that are trained on"
        found.append((trained, files))
    assert found[0] == found[1] == found[2]
    assert found[0][0] < TRAINED


def test_a_lock_of_other_features_is_refused(work: Work) -> None:
    assert work.here("alone", "-o", "runner.alone.epochs=1").status == 0
    work.change("quantiles: 5", "quantiles: 4")
    done = work.here("alone", "-o", "runner.alone.epochs=1")
    assert done.status == 2
    assert "UM-DATA-124" in done.said
    assert "different: range" in done.said


# ---- bad rows, missing columns


def test_bad_rows_are_allowed_by_share_and_counted(tmp_path: Path) -> None:
    work = filled(tmp_path, "csv")
    file = work.path / "data" / "part-1.csv"
    text = file.read_text()
    file.write_text(text + "1,100,u1,i1,cheap,\n0,101,u2\n")
    done = work.here("alone")
    assert done.status == 2
    assert "UM-DATA-112" in done.said
    assert "part-1.csv:" in done.said
    work.change("rows_before: 900", "rows_before: 900, bad_rows: 0.01")
    work.change("rows_after: 900", "rows_after: 900, bad_rows: 0.01")
    done = work.here("alone")
    assert done.status == 0, done.said
    assert [(row["samples"], row["bad_lines"]) for row in work.epochs("alone")] == [(TRAINED, 2)] * EPOCHS
    assert "a bad row is left out" in done.said


def test_check_names_every_file_without_a_column(work: Work) -> None:
    for number in (1, 2):
        path = work.path / "data" / f"part-{number}.parquet"
        table = parquet.read_table(path).rename_columns(["click", "at", "usr", "item", "price", "seen"])
        parquet.write_table(table, path)
    with forked_trials.installed():
        done = work.here("alone", "--check")
    assert done.status == 2
    for number in (1, 2):
        assert f"part-{number}.parquet: there is no column 'user'" in done.said
    assert "did you mean `usr`?" in done.said


# ---- prediction


def test_predictions_of_tables_need_no_label_and_keep_columns_as_they_are(work: Work) -> None:
    assert work.here("alone", "-o", "runner.alone.epochs=1").status == 0
    from umiak.cli.main import main

    table = parquet.read_table(work.path / "data" / "part-0.parquet").drop(["click", "at"])
    parquet.write_table(table, work.path / "day.parquet")
    with train_runs._inside(work.path):
        for out in ("scores.parquet", "scores.csv"):
            words = [
                "predict",
                "-m",
                "config.yaml",
                "-o",
                "mode=alone",
                "--data",
                "day.parquet",
                "--out",
                out,
                "--keep",
                "item,price",
            ]
            assert main([*words, "--quiet"]) == 0
    scores = parquet.read_table(work.path / "scores.parquet")
    assert scores.column_names == ["item", "price", "probability"]
    assert scores["item"].to_pylist() == table["item"].to_pylist()
    assert scores["price"].to_pylist() == table["price"].to_pylist()
    with (work.path / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["item"] for row in rows] == table["item"].to_pylist()
    assert [float(row["probability"]) for row in rows] == pytest.approx(scores["probability"].to_pylist(), rel=1e-6)


# ---- without a line of code


def clicks(rng: np.random.Generator, count: int, weights: dict[str, np.ndarray]) -> dict[str, object]:
    """Rows whose probability of a click is known."""
    user, item, hour = (rng.integers(0, len(weights[name]), count) for name in ("user", "item", "hour"))
    price = rng.lognormal(2.0, 1.0, count)
    logit = weights["user"][user] + weights["item"][item] + weights["hour"][hour] - 0.6 * (np.log(price) - 2.0)
    best = 1.0 / (1.0 + np.exp(-logit))
    return {
        "click": (rng.random(count) < best).astype(np.int64),
        "user_id": [f"u{each}" for each in user],
        "item": [f"i{each}" for each in item],
        "hour": hour,
        "price": price,
        "best": best,
    }


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """By ranks; no two scores that matter are equal."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    positives = labels.sum()
    return float((ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


def test_the_config_of_umiak_new_comes_near_the_best_that_is_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(11)
    weights = {"user": rng.normal(0, 1.2, 40), "item": rng.normal(0, 1.2, 30), "hour": rng.normal(0, 0.5, 24)}
    table = clicks(rng, 40_000, weights)
    parquet.write_table(pa.table({name: each for name, each in table.items() if name != "best"}), "log.parquet")
    day = clicks(rng, 20_000, weights)
    parquet.write_table(pa.table(day), "day.parquet")  # type: ignore[arg-type]
    from umiak.cli.main import main

    assert main(["new", "ctr", "--data", "log.parquet", "--label", "click"]) == 0
    assert main(["train", "-m", "ctr", "-o", "runner.epochs=3", "runner.use_inference=false", "--quiet"]) == 0
    words = ["--data", "day.parquet", "--out", "scores.parquet", "--keep", "click,best", "--quiet"]
    assert main(["predict", "-m", "ctr", *words]) == 0
    scores = parquet.read_table("scores.parquet")
    labels, found, best = (scores[name].to_numpy() for name in ("click", "probability", "best"))
    assert auc(labels, found) > auc(labels, best) - 0.005

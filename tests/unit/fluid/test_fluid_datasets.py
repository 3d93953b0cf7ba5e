"""Datasets of fluid: files to batches, a program that learns them as if it were fed, Hadoop's files, how long operations take. Real Paddle."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, paddle, programs
from tests.support.ps_cluster import Cluster
from umiak.core.problem import BadRequest, UmiakError
from umiak.fleet.datasets.pipes import PipeError
from umiak.fluid.data import datasets

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

Sample = tuple[list[int], list[float], int]


def samples(count: int, seed: int = 1) -> list[Sample]:
    """Ids of any number, two numbers, a label."""
    chance = np.random.default_rng(seed)
    return [
        (chance.integers(1, 50, chance.integers(1, 5)).tolist(), chance.random(2).round(3).tolist(), int(number % 2))
        for number in range(count)
    ]


def line(sample: Sample) -> str:
    ids, dense, label = sample
    return f"{len(ids)} {' '.join(map(str, ids))} 2 {dense[0]} {dense[1]} 1 {label}\n"


def files(folder: Path, parts: list[list[Sample]]) -> list[str]:
    names = [folder / f"part-{number}" for number in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        name.write_text("".join(map(line, part)))
    return list(map(str, names))


def variables() -> tuple[Any, Any, Any]:
    return (
        fluid.data("ids", [None, 1], "int64", lod_level=1),
        fluid.data("dense", [None, 2], "float32"),
        fluid.data("label", [None, 1], "int64"),
    )


def network() -> tuple[list[Any], Any]:
    ids, dense, label = variables()
    rows = fluid.layers.sequence_pool(fluid.embedding(ids, [50, 4]), "sum")
    rows = fluid.layers.reshape(rows, [-1, 4])
    guess = fluid.layers.fc([rows, dense], 2, act="softmax")
    return [ids, dense, label], fluid.layers.mean(fluid.layers.cross_entropy(guess, label))


def dataset(kind: str, variables: Any, names: list[str], batch_size: int = 8, command: str = "cat") -> Any:
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_use_var(variables)
    made.set_batch_size(batch_size)
    made.set_filelist(names)
    made.set_pipe_command(command)
    return made


class EveryBatch(fluid.FetchHandler):  # type: ignore[misc]
    """Keeps what is fetched of each batch."""

    def __init__(self, **variables: Any) -> None:
        super().__init__(variables, period_secs=-1)
        self.batches: list[dict[str, Any]] = []

    def handler(self, res_dict: dict[str, Any]) -> None:
        self.batches.append({name: values.copy() for name, values in res_dict.items()})


def test_a_program_learns_a_dataset_as_if_it_were_fed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [samples(20), samples(7, seed=2)]
    with programs() as made:
        inputs, loss = network()
        fluid.optimizer.Adam(0.05).minimize(loss)
        made.start()
        first = {name: tensor.numpy() for name, tensor in fluid.global_scope().tensors.items()}
        made.executor.train_from_dataset(
            made.main,
            dataset("QueueDataset", inputs, files(tmp_path, parts)),
            fetch_list=[loss],
            fetch_info=["the loss"],
            print_period=1,
        )
        printed = re.findall(r"batch: \[(\d+)\], the loss\[1\]:\[([\d.]+)\]", capsys.readouterr().out)
        for name, values in first.items():
            fluid.global_scope().find_var(name).get_tensor().set(values)
        everything = [*parts[0], *parts[1]]
        expected = []
        for begin in range(0, len(everything), 8):
            batch = everything[begin : begin + 8]
            values = np.array([each for ids, _, _ in batch for each in ids], np.int64).reshape(-1, 1)
            feed = {
                "ids": fluid.create_lod_tensor(values, [[len(ids) for ids, _, _ in batch]], fluid.CPUPlace()),
                "dense": np.array([dense for _, dense, _ in batch], np.float32),
                "label": np.array([[label] for _, _, label in batch], np.int64),
            }
            expected.append(float(made.run(feed, [loss])[0][0]))
    assert [int(number) for number, _ in printed] == [1, 2, 3, 4]
    assert [float(value) for _, value in printed] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["QueueDataset", "FileInstantDataset", "InMemoryDataset"])
def test_every_sample_is_used_once(tmp_path: Path, kind: str) -> None:
    parts = [samples(9), samples(5, seed=2), samples(3, seed=3)]
    with programs() as made:
        ids, dense, label = variables()
        total = fluid.layers.reduce_sum(dense, dim=1)
        counted = EveryBatch(total=total, ids=ids)
        told = dataset(kind, [ids, dense, label], files(tmp_path, parts), batch_size=4)
        told.set_thread(2)
        if kind == "InMemoryDataset":
            told.preload_into_memory()
            told.wait_preload_done()
            assert (told.get_memory_data_size(), told.get_shuffle_data_size()) == (17, 0)
            told.local_shuffle()
            told.global_shuffle()
            assert told.get_shuffle_data_size() == 17
        made.executor.infer_from_dataset(made.main, told, thread=1, fetch_handler=counted)
        if kind == "InMemoryDataset":
            told.release_memory()
            with pytest.raises(BadRequest, match="holds no samples"):
                made.executor.infer_from_dataset(made.main, told)
    everything = [each for part in parts for each in part]
    found = [each for batch in counted.batches for each in batch["total"].reshape(-1).tolist()]
    expected = [sum(numbers) for _, numbers, _ in everything]
    assert sorted(found) == pytest.approx(sorted(expected), rel=1e-5)
    if kind != "InMemoryDataset":
        assert found == pytest.approx(expected, rel=1e-5)
        with pytest.raises(NotImplementedError, match="InMemoryDataset"):
            told.local_shuffle()
        with pytest.raises(NotImplementedError, match="InMemoryDataset"):
            told.global_shuffle()
    ids_found = [int(each) for batch in counted.batches for each in batch["ids"].reshape(-1)]
    assert sorted(ids_found) == sorted(each for numbers, _, _ in everything for each in numbers)
    assert [len(batch["total"]) for batch in counted.batches] == [4, 4, 4, 4, 1]


GENERATOR = """
import sys
sys.path.insert(0, {root!r})
import umiak.fluid
umiak.fluid.install()
import paddle.fluid.incubate.data_generator as generators

class Words(generators.{kind}):
    def generate_sample(self, line):
        def samples():
            word, number = line.split()
            yield [("ids", {ids}), ("number", {number})]
        return samples

made = Words()
made.set_batch(2)
made.run_from_stdin()
"""
KINDS = {
    "MultiSlotDataGenerator": ("[len(word), 7]", "[float(number)]"),
    "MultiSlotStringDataGenerator": ("[str(len(word)), '7']", "[number]"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_a_data_generator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    ids, number = KINDS[kind]
    monkeypatch.setattr(sys, "stdin", iter(["ab 1.5\n", "abc 2.5\n", "a 0.5\n"]))
    exec(compile(GENERATOR.format(root="", kind=kind, ids=ids, number=number), "reader.py", "exec"), {})
    assert capsys.readouterr().out == "2 2 7 1 1.5\n2 3 7 1 2.5\n2 1 7 1 0.5\n"
    assert issubclass(fluid.incubate.data_generator.MultiSlotDataGenerator, fluid.incubate.data_generator.DataGenerator)
    assert fluid.incubate.data_generator.MultiSlotStringDataGenerator is not None


def test_what_a_program_prints_is_read(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("ab 1.5\nabc 2.5\n")
    with programs() as made:
        inputs = [fluid.data("ids", [None, 1], "int64", lod_level=1), fluid.data("number", [None, 1], "float32")]
        doubled = EveryBatch(doubled=fluid.layers.scale(inputs[1], 2.0))
        told = dataset("QueueDataset", inputs, [str(tmp_path / "words")], command="awk '{print 1, length($1), 1, $2}'")
        made.executor.train_from_dataset(made.main, told, fetch_handler=doubled)
        assert doubled.batches[0]["doubled"].tolist() == [[3.0], [5.0]]
        told.set_pipe_command("awk '{print 1, $1, 1, $2}'")
        with pytest.raises(PipeError, match=r"slot 1 \(ids\)"):
            made.executor.train_from_dataset(made.main, told)


def test_slots_are_shuffled_apart(tmp_path: Path) -> None:
    everything = samples(40)
    with programs() as made:
        inputs = list(variables())
        fluid.layers.scale(inputs[1], 1.0)
        told = dataset("InMemoryDataset", inputs, files(tmp_path, [everything]), batch_size=40)
        told.load_into_memory()
        with pytest.warns(UserWarning, match="slots_shuffle has no effect"):
            told.slots_shuffle(["dense"])
        told.set_fea_eval(1, True)
        told.slots_shuffle(["dense"])
        with pytest.raises(BadRequest, match="no such slots: price"):
            told.slots_shuffle(["price"])
        seen = EveryBatch(dense=inputs[1], label=inputs[2])
        made.executor.infer_from_dataset(made.main, told, fetch_handler=seen)
    dense = [tuple(row) for row in seen.batches[0]["dense"].round(3).tolist()]
    expected = [tuple(np.float32(numbers).round(3).tolist()) for _, numbers, _ in everything]
    assert sorted(dense) == sorted(expected)
    assert dense != expected
    assert seen.batches[0]["label"].reshape(-1).tolist() == [label for _, _, label in everything]


def test_trainers_shuffle_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trainers of real servers, as threads: each sample stays exactly once, and both have as many."""
    place = threading.local()
    monkeypatch.setattr(datasets, "_session", lambda _fleet, _name: place.session)
    parts = [samples(30), samples(4, seed=2)]
    names = files(tmp_path, parts)
    with programs():
        inputs = list(variables())

    def shuffled(session: Any) -> tuple[list[float], tuple[int, int, int]]:
        place.session = session
        fleet = SimpleNamespace(worker_num=lambda: 2)
        told = dataset("InMemoryDataset", inputs, [names[session.rank]], batch_size=100)
        told.load_into_memory()
        before = told.get_shuffle_data_size(fleet)
        told.global_shuffle(fleet)
        found = [each for batch in told.batches(told.settings()) for each in batch.arrays()[1][0].tolist()]
        return found, (before, told.get_memory_data_size(fleet), told.get_shuffle_data_size(fleet))

    with Cluster(servers=1, trainers=2) as cluster:
        (first, sizes), (second, _) = cluster.train("async", shuffled)
    assert sizes == (0, 34, 34)
    assert (len(first), len(second)) == (34, 34)  # two numbers of 17 samples
    expected = [each for part in parts for _, numbers, _ in part for each in numbers]
    assert sorted(first + second) == pytest.approx(sorted(expected))


def test_trainers_without_servers_do_not_shuffle_together(tmp_path: Path) -> None:
    told = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    with pytest.raises(BadRequest, match="parameter servers only"):
        told.global_shuffle(SimpleNamespace(worker_num=lambda: 3))


def test_lines_may_begin_with_an_id_and_a_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"1 id{number} 1 text {line(each)}" for number, each in enumerate(samples(3))))
    with programs():
        told = dataset("InMemoryDataset", list(variables()), [str(tmp_path / "a")])
        told.set_parse_ins_id(True)
        told.set_parse_content(True)
        told.load_into_memory()
        assert told.get_memory_data_size() == 3


def test_what_has_no_effect_is_said_and_what_is_not_done_is_refused() -> None:
    told = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    for call in (
        lambda: told.set_queue_num(2),
        lambda: told.set_fleet_send_batch_size(100),
        lambda: told.set_fleet_send_sleep_seconds(1),
    ):
        with pytest.warns(UserWarning, match=r"dataset\.set_\w+\(.*\) has no effect"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (told.set_merge_by_sid, told.set_enable_pv_merge, told.set_parse_logkey):
            call(False)
        told.set_generate_unique_feasigns(False, 1)
    for call in (
        lambda: told.set_merge_by_sid(True),
        lambda: told.set_enable_pv_merge(True),
        lambda: told.set_parse_logkey(True),
        lambda: told.set_merge_by_lineid(2),
        lambda: told.set_generate_unique_feasigns(True, 1),
        lambda: told.set_current_phase(1),
        told.preprocess_instance,
        told.postprocess_instance,
        lambda: told.set_rank_offset("rank"),
        lambda: told.set_pv_batch_size(2),
        lambda: fluid.DatasetFactory().create_dataset("BoxPSDataset"),
        lambda: fluid.DatasetFactory().create_dataset().set_fea_eval(1),
        lambda: fluid.DatasetFactory().create_dataset().slots_shuffle(["a"]),
    ):
        with pytest.raises(BadRequest) as caught:
            call()
        assert caught.value.problems[0].code == "UM-FLUID-003"
        assert caught.value.problems[0].where.startswith(__file__)


def test_mistakes_are_said_together_with_the_line() -> None:
    with pytest.raises(BadRequest, match="expected QueueDataset, InMemoryDataset"):
        fluid.DatasetFactory().create_dataset("Dataset")
    with programs() as made:
        inputs, loss = network()
        fluid.optimizer.SGD(0.1).minimize(loss)
        told = fluid.DatasetFactory().create_dataset()
        with pytest.raises(BadRequest) as caught:
            made.executor.train_from_dataset(made.main, told)
        assert [each.what for each in caught.value.problems] == [
            "a dataset without variables",
            "a dataset without files",
        ]
        told.set_use_var(inputs)
        with pytest.raises(BadRequest, match="slots twice: ids"):
            told.set_use_var(inputs[:1])
        small = fluid.data("small", [None, 1], "int32")
        with pytest.raises(BadRequest, match="small is int32"):
            told.set_use_var([small])
        told.set_filelist(["none"])
        with pytest.raises(BadRequest, match="1 variables and fetch_info 2 names"):
            made.executor.train_from_dataset(made.main, told, fetch_list=[loss], fetch_info=["a", "b"])
        with pytest.raises(BadRequest, match="expected a dataset"):
            made.executor.train_from_dataset(made.main, ["none"])
        with pytest.warns(UserWarning, match="this program learns"), pytest.raises(PipeError, match="can't be read"):
            made.executor.infer_from_dataset(made.main, told)
        assert isinstance(told, fluid.dataset.DatasetBase)
        assert isinstance(told, fluid.dataset.QueueDataset)
        assert issubclass(fluid.dataset.FileInstantDataset, fluid.dataset.DatasetBase)
        assert issubclass(fluid.dataset.InMemoryDataset, fluid.dataset.DatasetBase)
        assert 'name: "dense"' in told.desc()
        assert "is_dense: true" in told.desc()


def test_a_loader_of_a_dataset(tmp_path: Path) -> None:
    with programs() as made:
        inputs, loss = network()
        told = dataset("QueueDataset", inputs, files(tmp_path, [samples(11)]), batch_size=4)
        sizes = []
        for feed in fluid.io.DataLoader.from_dataset(told, fluid.cpu_places(1), drop_last=True):
            sizes.append(len(np.asarray(feed[0]["label"])))
            assert made.executor.run(made.startup) == []
            assert np.isfinite(made.run(feed, [loss])[0]).all()
        assert sizes == [4, 4]
        rest = list(fluid.io.DataLoader.from_dataset(told, fluid.cpu_places(1), drop_last=False))
        assert [len(feed[0]["label"]) for feed in rest] == [4, 4, 3]


def test_a_description_of_a_feed(tmp_path: Path) -> None:
    (tmp_path / "feed.proto").write_text(
        'name: "MultiSlotDataFeed"\nbatch_size: 2\nmulti_slot_desc { slots { name: "ids" type: "uint64" } }\n'
    )
    described = fluid.DataFeedDesc(str(tmp_path / "feed.proto"))
    described.set_batch_size(64)
    described.set_use_slots(["ids"])
    described.set_dense_slots(["ids"])
    assert "batch_size: 64" in described.desc()
    assert "is_used: true" in described.desc()


# ---- Hadoop

HADOOP = """#!/bin/sh
# hadoop fs with files below $HDFS_ROOT; what it is called with is in $HDFS_ROOT/../calls
echo "$@" >> "$HDFS_ROOT/../calls"
[ "$1" = fs ] || exit 64
shift
if [ "$1" = -conf ]; then cp "$2" "$HDFS_ROOT/../settings"; stat -c %a "$2" > "$HDFS_ROOT/../rights"; shift 2; fi
op=$1; shift
at() { echo "$HDFS_ROOT/${1#hdfs://nn/}"; }
flag() { case $1 in -f|-r|-R|-p) return 0 ;; esac; return 1; }
case $op in
  -test) [ "$2" = hdfs://down ] && { echo "no route" >&2; exit 255; }; [ "$1" "$(at "$2")" ] ;;
  -cat) cat "$(at "$1")" ;;
  -ls) depth="-maxdepth 1"; if flag "$1"; then depth=; shift; fi
    cd "$HDFS_ROOT" && find "${1#hdfs://nn/}" -mindepth 1 $depth -exec stat -c '%A 3 me me %s 2026-01-01 00:00 hdfs://nn/%n' {} + ;;
  -get) over=-n; if flag "$1"; then over=-f; shift; fi; cp -r $over "$(at "$1")" "$2" ;;
  -put) if flag "$1"; then shift; elif [ -e "$(at "$2")/$(basename "$1")" ]; then echo exists >&2; exit 1; fi; cp "$1" "$(at "$2")" ;;
  -mkdir) mkdir -p "$(at "$2")" ;;
  -touchz) touch "$(at "$1")" ;;
  -rm) rm -r "$(at "$2")" ;;
  -mv) mv "$(at "$1")" "$(at "$2")" ;;
  *) exit 64 ;;
esac
"""
SECRET = {"fs.default.name": "hdfs://nn", "hadoop.job.ugi": "me,pass<word>"}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `hadoop` on PATH and in a home, whose files are in the directory that is returned."""
    program = tmp_path / "home" / "bin" / "hadoop"
    program.parent.mkdir(parents=True)
    program.write_text(HADOOP)
    program.chmod(0o755)
    root = tmp_path / "hdfs"
    root.mkdir()
    monkeypatch.setenv("HDFS_ROOT", str(root))
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return root


@pytest.mark.parametrize("packed", [False, True])
def test_a_dataset_of_files_in_hadoop(tmp_path: Path, cluster: Path, packed: bool) -> None:
    import gzip

    text = "".join(map(line, samples(5))).encode()
    name = "part-0.gz" if packed else "part-0"
    (cluster / name).write_bytes(gzip.compress(text) if packed else text)
    with programs() as made:
        ids, dense, label = variables()
        seen = EveryBatch(label=fluid.layers.scale(label, 1.0))
        told = dataset("QueueDataset", [ids, dense, label], [f"hdfs://nn/{name}"], command="cat | cat")
        told.set_hdfs_config("hdfs://nn", "me,pass<word>")
        made.executor.train_from_dataset(made.main, told, fetch_handler=seen)
        assert seen.batches[0]["label"].reshape(-1).tolist() == [each[2] for each in samples(5)]
        assert "pass&lt;word&gt;" in (tmp_path / "settings").read_text()
        assert "pass" not in (tmp_path / "calls").read_text()
        assert (tmp_path / "rights").read_text().strip() == "600"
        told.set_filelist(["hdfs://nn/none"])
        with pytest.raises(PipeError, match="hadoop fs -cat hdfs://nn/none"):
            made.executor.train_from_dataset(made.main, told)


def test_no_hadoop_command(tmp_path: Path) -> None:
    client = fluid.contrib.utils.HDFSClient(str(tmp_path), SECRET)
    with pytest.raises(UmiakError, match="which is not there"):
        client.is_exist("/data")


def test_files_of_hadoop(tmp_path: Path, cluster: Path) -> None:
    client = fluid.incubate.fleet.utils.hdfs.HDFSClient("$HADOOP_HOME", SECRET)
    here = tmp_path / "here"
    (here / "deep").mkdir(parents=True)
    for name in ("a", "b b", "deep/c"):
        (here / name).write_text(f" {name} \n")
    assert client.makedirs("hdfs://nn/data/in")
    assert fluid.contrib.utils.multi_upload(client, "hdfs://nn/data/in", str(here), multi_processes=2)
    assert sorted(client.lsr("hdfs://nn/data")) == [f"hdfs://nn/data/in/{name}" for name in ("a", "b b", "deep/c")]
    assert sorted(client.lsr("hdfs://nn/data", excludes=["hdfs://nn/data/in/a"]))[0].endswith("b b")
    assert "hdfs://nn/data/in/deep" in client.lsr("hdfs://nn/data", only_file=False)
    assert client.ls_dir("hdfs://nn/data/in") == (["deep"], client.ls_dir("hdfs://nn/data/in")[1])
    assert client.list_dirs("hdfs://nn/data") == ["in"]
    assert (client.is_dir("hdfs://nn/data"), client.is_file("hdfs://nn/data")) == (True, False)
    assert (client.is_dir("hdfs://nn/data/in/a"), client.is_file("hdfs://nn/data/in/a")) == (False, True)
    assert client.cat("hdfs://nn/data/in/a") == "a"
    mine = [
        fluid.contrib.utils.multi_download(client, "hdfs://nn/data/in", str(tmp_path / "back"), trainer, 2)
        for trainer in (0, 1)
    ]
    assert sorted(os.path.relpath(each, tmp_path / "back") for part in mine for each in part) == ["a", "b b", "deep/c"]
    assert (tmp_path / "back" / "deep" / "c").read_text() == " deep/c \n"
    assert sorted(map(len, mine)) == [1, 2]
    # A copy is not written over what is there, unless that is wanted; both orders of arguments are known.
    (here / "a").write_text("new")
    with pytest.warns(UserWarning, match="exists"):
        assert not client.upload("hdfs://nn/data/in", str(here / "a"), retry_times=0)
    assert client.upload("hdfs://nn/data/in", str(here / "a"), overwrite=True)
    assert client.cat("hdfs://nn/data/in/a") == "new"
    assert client.upload(str(here / "a"), "hdfs://nn/data")
    with pytest.warns(UserWarning, match="overwrite is False"):
        assert not client.download("hdfs://nn/data/in/a", str(tmp_path / "back"))
    assert client.download("hdfs://nn/data/in/a", str(tmp_path / "back"), overwrite=True)
    assert (tmp_path / "back" / "a").read_text() == "new"
    with pytest.warns(UserWarning, match="no such file in the cluster"):
        assert not client.download("hdfs://nn/none", str(tmp_path / "back"))
    with pytest.raises(BadRequest, match="no such file here"):
        client.upload("hdfs://nn/data", str(tmp_path / "none"))
    with pytest.warns(UserWarning, match="overwrite is False"):
        assert not client.rename("hdfs://nn/data/a", "hdfs://nn/data/in/a")
    assert client.rename("hdfs://nn/data/a", "hdfs://nn/data/in/a", overwrite=True)
    assert client.touch("hdfs://nn/data/done")
    assert client.mv("hdfs://nn/data/done", "hdfs://nn/data/finished")
    assert client.is_exist("hdfs://nn/data/finished")
    assert client.delete("hdfs://nn/data")
    assert client.delete("hdfs://nn/data")
    assert not (cluster / "data").exists()
    with pytest.warns(UserWarning, match="no route"):
        assert not client.is_exist("hdfs://down")
    assert client.need_upload_download()
    assert client.split_files(list("abcde"), 0, 2) + client.split_files(list("abcde"), 1, 2) == list("abcde")
    assert "pass" not in (tmp_path / "calls").read_text()
    local = fluid.incubate.fleet.utils.fs.LocalFS()
    assert local.is_dir(str(tmp_path))


# ---- how long operations take


def test_a_profile_of_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    path = tmp_path / "profile"
    path.symlink_to(victim)
    with programs() as made:
        x = fluid.data("x", [None, 4], "float32")
        out = fluid.layers.relu(fluid.layers.fc(x, 2))
        feed = {"x": np.ones((2, 4), np.float32)}
        made.start()
        with fluid.profiler.profiler("CPU", sorted_key="calls", profile_path=str(path)):
            made.run(feed, [out])
            fluid.profiler.reset_profiler()
            for _ in range(3):
                made.run(feed, [out])
        made.run(feed, [out])
    head, columns, *rows = capsys.readouterr().out.strip().splitlines()
    assert "calls" in head
    assert columns.split() == ["Event", "Calls", "Total", "Min", "Max", "Ave", "Ratio"]
    assert {row.split()[0]: int(row.split()[1]) for row in rows}["relu"] == 3
    for row in rows:
        _, calls, total, least, most, average, _ = row.split()
        assert float(least) <= float(average) + 1e-4
        assert float(average) <= float(most) + 1e-4
        assert float(total) == pytest.approx(int(calls) * float(average), abs=1e-3)
    assert sum(float(row.split()[-1]) for row in rows) == pytest.approx(1.0, abs=1e-3)
    assert victim.read_text() == "kept"
    events = json.loads(path.read_text())["traceEvents"]
    assert [each["name"] for each in events].count("relu") == 3
    assert events[0]["args"]["line"].startswith(__file__)
    assert all(first["ts"] <= second["ts"] for first, second in pairwise(events))


@pytest.mark.parametrize("key", ["total", "max", "min", "ave"])
def test_the_order_of_a_profile(capsys: pytest.CaptureFixture[str], key: str) -> None:
    with programs() as made:
        x = fluid.data("x", [None, 4], "float32")
        out = fluid.layers.mean(fluid.layers.exp(fluid.layers.fc(x, 2)))
        made.start()
        fluid.profiler.start_profiler("All", "OpDetail")
        fluid.profiler.start_profiler("All")
        for rows in (1, 500):
            made.run({"x": np.ones((rows, 4), np.float32)}, [out])
        fluid.profiler.stop_profiler(key, None)
        fluid.profiler.stop_profiler(key, None)
    _, columns, *rows = capsys.readouterr().out.strip().splitlines()
    place = columns.split().index(key.capitalize())
    found = [float(row.split()[place]) for row in rows]
    assert found == sorted(found, reverse=True)
    assert len(found) > 2


def test_a_profile_that_can_not_be_written_ends_no_training(tmp_path: Path) -> None:
    measured = fluid.profiler.profiler("CPU", profile_path=str(tmp_path / "none" / "profile"))
    with pytest.warns(UserWarning, match="is not written: No such file"), measured:
        pass


def test_wrong_words_for_a_profile() -> None:
    for call in (
        lambda: fluid.profiler.start_profiler("TPU"),
        lambda: fluid.profiler.start_profiler("CPU", "Everything"),
        lambda: fluid.profiler.stop_profiler("name"),
    ):
        with pytest.raises(BadRequest, match="profiler: expected"):
            call()
    with pytest.raises(BadRequest, match="output_mode"), fluid.profiler.cuda_profiler("out.txt", "xml"):
        pass


@pytest.mark.parametrize(("mode", "shown"), [(None, "relu,2,"), ("kvp", "name=relu calls=2 total_us=")])
def test_cuda_profiler_times_operations_and_says_so(tmp_path: Path, mode: str | None, shown: str) -> None:
    with programs() as made:
        x = fluid.data("x", [None, 4], "float32")
        out = fluid.layers.relu(x)
        made.start()
        path = tmp_path / "out.txt"
        feed = {"x": np.ones((2, 4), np.float32)}

        def measure() -> None:
            with fluid.profiler.cuda_profiler(str(path), mode, config=["gpustarttimestamp"]):
                made.run(feed, [out])
                made.run(feed, [out])

        with pytest.warns(UserWarning, match="nvprof is gone.*not kernels; config has no effect"):
            measure()
    assert any(line.startswith(shown) for line in path.read_text().splitlines())


def test_a_dataset_with_debug_shows_its_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with programs() as made:
        inputs, _ = network()
        made.start()
        told = dataset("QueueDataset", inputs, files(tmp_path, [samples(4)]))
        made.executor.train_from_dataset(made.main, told, debug=True)
    assert "sequence_pool" in capsys.readouterr().out
    assert paddle.fluid is fluid

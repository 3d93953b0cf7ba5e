"""Checkpoints: published whole, refused otherwise, found, kept; and tables exported for others."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import umiak_native
from safetensors.numpy import load_file

from tests.support import PATIENCE_S
from tests.support import checkpoint_helpers as helpers
from tests.support.checkpoint_helpers import COUNTED, CTR, DENSE, SPARSE
from tests.support.paths import GOLDEN
from umiak.ps import checkpoint, export, manifest
from umiak.ps.checkpoint import BadCheckpoint
from umiak.ps.clients import local
from umiak.ps.clients.local import LocalClient

FORMAT_1 = GOLDEN / "checkpoint-format-1"
"""As umiak wrote them when every shard had a file of its own."""

ENVIRON = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]}


def codes(error: BadCheckpoint) -> list[str]:
    return [problem.code for problem in error.problems]


def refusal(path: Path, *, verify: bool = False) -> BadCheckpoint:
    with pytest.raises(BadCheckpoint) as caught:
        checkpoint.read(path, verify=verify)
    for problem in caught.value.problems:
        assert problem.where
        assert problem.where.startswith(str(path))
    return caught.value


# ---- manifests


def test_a_small_checkpoint_is_few_files(tmp_path: Path) -> None:
    client = LocalClient()
    table = client.create_table("words", json.dumps(helpers.SPARSE))
    client.set(table, np.arange(1000, dtype=np.uint64), np.ones((1000, 3), np.float32))
    checkpoint.save(client, tmp_path / "small")
    assert sorted(os.listdir(tmp_path / "small")) == ["MANIFEST", "shard-00000.umiak"]
    assert len(export.contents(tmp_path / "small")["words"]["rows"]) == 1000


def test_a_large_checkpoint_is_many_files(tmp_path: Path) -> None:
    client = LocalClient()
    table = client.create_table("words", json.dumps({**helpers.SPARSE, "dim": 64}))
    keys = np.arange(60_000, dtype=np.uint64)
    client.set(table, keys, np.ones((len(keys), 64), np.float32))
    saved = checkpoint.save(client, tmp_path / "large")
    assert len(saved.files) > 1
    assert [file.shard for file in saved.files[1:]] == [file.shard + file.count for file in saved.files[:-1]]
    other = LocalClient()
    checkpoint.load(other, tmp_path / "large")
    assert len(export.contents(tmp_path / "large")["words"]["rows"]) == len(keys)


def test_a_checkpoint_of_the_first_format_is_read(tmp_path: Path) -> None:
    shutil.copytree(FORMAT_1, tmp_path / "old")
    old = checkpoint.read(tmp_path / "old", verify=True)
    assert [(file.shard, file.count) for file in old.files] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    umiak_native.read_manifest(tmp_path / "old")
    client = LocalClient(shards=4)
    checkpoint.load(client, tmp_path / "old")
    checkpoint.save(client, tmp_path / "new")
    for name in ("old", "new"):
        tables = export.contents(tmp_path / name)
        rows = tables["words"]["rows"]
        assert {key: row[:3].tolist() for key, (_, row) in rows.items()} == {
            key: [key, key + 0.25, key + 0.5] for key in range(20)
        }
        assert tables["mlp"]["values"].tolist() == list(range(25))


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    metadata = {"epoch": 3, "loss": 0.1 + 0.2, "reader": [{"file": "tag é", "offset": 2**62}], "none": None}
    saved = helpers.save_small(tmp_path / "runs" / "step-5", metadata=metadata)
    assert checkpoint.read(tmp_path / "runs" / "step-5", verify=True) == saved
    assert not checkpoint.partial(tmp_path / "runs" / "step-5").exists()
    assert sorted(os.listdir(tmp_path / "runs" / "step-5")) == ["MANIFEST", "shard-00000.umiak", "shard-00001.umiak"]


def test_a_manifest_torn_at_any_byte_is_refused(tmp_path: Path) -> None:
    helpers.save_small(tmp_path / "c")
    file = tmp_path / "c" / "MANIFEST"
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        assert codes(refusal(tmp_path / "c")) == ["UM-PS-102"], length
        with pytest.raises(umiak_native.BadFile) as caught:
            umiak_native.read_manifest(tmp_path / "c")
        assert caught.value.trouble == "torn"


def test_a_manifest_with_any_byte_changed_is_refused(tmp_path: Path) -> None:
    helpers.save_small(tmp_path / "c")
    file = tmp_path / "c" / "MANIFEST"
    content = file.read_bytes()
    seen = set()
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 7
        file.write_bytes(changed)
        seen.update(codes(refusal(tmp_path / "c")))
        with pytest.raises(umiak_native.BadFile):
            umiak_native.read_manifest(tmp_path / "c")
    assert seen == {"UM-PS-102", "UM-PS-103", "UM-PS-104", "UM-PS-105"}


def signed(body: object, first: bytes = b"umiak checkpoint 2\n") -> bytes:
    text = first + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n"
    return text + b"crc32 %08x\n" % manifest.crc32(text)


def plain() -> dict:
    file = {"name": "shard-00000.umiak", "shard": 0, "count": 1, "bytes": 1, "crc32": 2, "rows": {"a": 3}}
    return {"name": "c", "shards": 1, "step": 1, "saved": 2, "tables": {}, "files": [file], "metadata": {}}


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", "UM-PS-102", "cut off"),
        (b"hello", "UM-PS-104", "not a manifest"),
        (signed({}, b"umiak checkpoint 3\n"), "UM-PS-105", "format '3', and this umiak reads formats up to 2"),
        (signed({}), "UM-PS-106", "the fields name, shards"),
        (signed(b"{"), "UM-PS-106", ""),
        (signed(b"[" * 200_000), "UM-PS-106", "nested too deeply"),
        (signed({**plain(), "shards": 3}), "UM-PS-106", "expected a power of two, got 3"),
        (signed({**plain(), "step": -1}), "UM-PS-106", "step: negative"),
        (signed({**plain(), "step": True}), "UM-PS-106", "step: expected int, got bool"),
        (signed({**plain(), "extra": 1}), "UM-PS-106", "got name"),
        (signed({**plain(), "saved": "now"}), "UM-PS-106", "saved: expected a number"),
        (signed({**plain(), "metadata": []}), "UM-PS-106", "metadata: expected dict"),
        (signed({**plain(), "files": [{**plain()["files"][0], "name": "../x"}]}), "UM-PS-106", "can't be called"),
        (signed({**plain(), "files": [{**plain()["files"][0], "name": ""}]}), "UM-PS-106", "can't be called"),
        (signed({**plain(), "tables": {"a": {"spec": 1, "state": None}}}), "UM-PS-106", "the spec of a"),
        (signed({**plain(), "files": [{**plain()["files"][0], "count": 0}]}), "UM-PS-112", "can't hold so many"),
        (signed({**plain(), "files": [{**plain()["files"][0], "count": 2}]}), "UM-PS-112", "can't hold so many"),
        (signed(plain(), b"umiak checkpoint 1\n"), "UM-PS-106", "the fields name, shard, bytes"),
        (signed({**plain(), "files": []}), "UM-PS-112", "no file holds shard 0 of 1"),
        (signed({**plain(), "shards": 8}), "UM-PS-112", "no file holds shard 1, 2, 3 and 4 more of 8"),
    ],
)
def test_what_is_no_manifest(tmp_path: Path, content: bytes, code: str, words: str) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "MANIFEST").write_bytes(content)
    said = refusal(tmp_path / "c")
    assert said.problems[0].code == code
    assert words in str(said)


def test_files_that_are_missing_or_torn_are_named_together(tmp_path: Path) -> None:
    helpers.save_small(tmp_path / "c", shards=4)
    (tmp_path / "c" / "shard-00001.umiak").unlink()
    os.truncate(tmp_path / "c" / "shard-00003.umiak", 10)
    said = refusal(tmp_path / "c")
    assert codes(said) == ["UM-PS-107", "UM-PS-107"]
    assert "shard-00001.umiak: a file is missing [UM-PS-107]" in str(said)
    assert "shard-00003.umiak: a file is torn: 10 bytes, not the" in str(said)
    assert "hint: copy the checkpoint again" in str(said)
    with pytest.raises(umiak_native.BadFile):
        umiak_native.read_manifest(tmp_path / "c")


def test_a_changed_file_is_found_when_asked_to_verify(tmp_path: Path) -> None:
    helpers.save_small(tmp_path / "c")
    file = tmp_path / "c" / "shard-00001.umiak"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    checkpoint.read(tmp_path / "c")
    assert codes(refusal(tmp_path / "c", verify=True)) == ["UM-PS-108"]


def test_what_is_not_there_is_told_apart(tmp_path: Path) -> None:
    assert "no such checkpoint" in str(refusal(tmp_path / "absent"))
    helpers.save_small(tmp_path / "c")
    assert "name one of the directories in it" in str(refusal(tmp_path))
    checkpoint.partial(tmp_path / "half").mkdir()
    assert "its saving was never finished" in str(refusal(tmp_path / "half"))
    (tmp_path / "file").write_text("")
    assert codes(refusal(tmp_path / "file")) == ["UM-PS-101"]


def test_native_and_python_read_each_other(tmp_path: Path) -> None:
    saved = helpers.save_small(tmp_path / "c", metadata={"x": [0.1, "é", None]})
    native = json.loads(umiak_native.read_manifest(tmp_path / "c"))
    assert native["metadata"] == {"x": [0.1, "é", None]}
    assert native["tables"]["emb"]["spec"] == SPARSE
    (tmp_path / "c" / "MANIFEST").unlink()
    umiak_native.write_manifest(tmp_path / "c", json.dumps(native))
    assert checkpoint.read(tmp_path / "c", verify=True) == saved


# ---- publishing


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    saved = helpers.save_small(tmp_path / "c")
    with pytest.raises(BadCheckpoint, match="already there"):
        helpers.save_small(tmp_path / "c", step=6)
    assert checkpoint.read(tmp_path / "c") == saved


def test_what_is_incomplete_is_not_published(tmp_path: Path) -> None:
    checkpoint.partial(tmp_path / "c").mkdir()
    file = helpers.write_shard(checkpoint.partial(tmp_path / "c"), 0, 2, [])
    missing = helpers.make_manifest([file], [], 2)
    with pytest.raises(BadCheckpoint, match="no file holds shard 1 of 2"):
        checkpoint.publish(missing, tmp_path / "c")
    twice = helpers.make_manifest([file, file, {**file, "shard": 1, "name": "gone"}], [], 2)
    with pytest.raises(BadCheckpoint) as caught:
        checkpoint.publish(twice, tmp_path / "c")
    assert codes(caught.value) == ["UM-PS-112", "UM-PS-107"]
    strange = helpers.make_manifest([file, {**file, "shard": 1}, {**file, "shard": 9}], [], 2)
    with pytest.raises(BadCheckpoint, match="shard 9, and there are only 2"):
        checkpoint.publish(strange, tmp_path / "c")
    same = helpers.make_manifest([file, {**file, "shard": 1}], [], 2)
    with pytest.raises(BadCheckpoint, match="listed twice"):
        checkpoint.publish(same, tmp_path / "c")
    assert os.listdir(tmp_path) == ["c.partial"]


@pytest.mark.parametrize(
    ("item", "where"),
    [
        (math.nan, "metadata.a"),
        (math.inf, "metadata.a"),
        (np.float32(1), "metadata.a"),
        (b"x", "metadata.a"),
        ({1: 2}, "metadata.a"),
        ([0, {"b": object()}], "metadata.a[1].b"),
    ],
)
def test_metadata_must_be_plain(tmp_path: Path, item: object, where: str) -> None:
    with pytest.raises(BadCheckpoint) as caught:
        helpers.save_small(tmp_path / "c", metadata={"a": item})
    assert (codes(caught.value), caught.value.problems[0].where) == (["UM-PS-113"], where)


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    checkpoint.partial(tmp_path / "c").mkdir()
    file = helpers.write_shard(checkpoint.partial(tmp_path / "c"), 0, 1, [])
    (checkpoint.partial(tmp_path / "c") / ".MANIFEST.tmp").mkdir()
    with pytest.raises(BadCheckpoint, match="can't be written"):
        checkpoint.publish(helpers.make_manifest([file], [], 1), tmp_path / "c")


class Servers:
    """Two servers that save: what `umiak_native.Client` looks like to a checkpoint."""

    def __init__(self, shards: int = 4) -> None:
        self.shards = shards
        self.loaded: dict = {}

    def save(self, request: str) -> str:
        asked = json.loads(request)
        answers = []
        for server in range(2):
            mine = range(server * self.shards // 2, (server + 1) * self.shards // 2)
            tables = [("emb", SPARSE, None, [])]
            files = [helpers.write_shard(Path(asked["path"]), s, self.shards, tables, asked["step"]) for s in mine]
            answers.append({"files": files, "tables": {"emb": {"spec": SPARSE, "state": server}}})
        return json.dumps(answers)

    def load(self, request: str) -> str:
        self.loaded = json.loads(request)
        return "[]"


def test_servers_save_and_load(tmp_path: Path) -> None:
    servers = Servers()
    (tmp_path / "runs" / "a.partial").mkdir(parents=True)
    (tmp_path / "runs" / "a.partial" / "of-an-earlier-try").write_text("")
    saved = checkpoint.save(servers, tmp_path / "runs" / "a", step=7, metadata={"x": 1}, saved=3.5)
    assert checkpoint.load(servers, tmp_path / "runs" / "a") == saved
    assert (saved.step, saved.shards, saved.saved, saved.metadata) == (7, 4, 3.5, {"x": 1})
    assert (saved.tables["emb"].spec, saved.tables["emb"].state) == (SPARSE, 0)
    assert not (tmp_path / "runs" / "a" / "of-an-earlier-try").exists()
    assert servers.loaded == {"path": str(tmp_path / "runs" / "a"), "step": 7}
    with pytest.raises(BadCheckpoint, match="already there"):
        checkpoint.save(servers, tmp_path / "runs" / "a")
    servers.save = lambda request: '[{"files": [{}], "tables": {}}]'  # type: ignore[method-assign]
    with pytest.raises(BadCheckpoint, match="a server's answer can't be understood"):
        checkpoint.save(servers, tmp_path / "runs" / "b")
    elsewhere = Servers().save(json.dumps({"path": str(tmp_path), "step": 0}))
    servers.save = lambda request: elsewhere  # type: ignore[method-assign]
    with pytest.raises(BadCheckpoint, match="all servers must see the same directory"):
        checkpoint.save(servers, tmp_path / "runs" / "c")
    assert os.listdir(tmp_path / "runs") == ["a"], "what a failed save had written is gone"


def test_metadata_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    servers = Servers()
    servers.save = None  # type: ignore[assignment,method-assign]
    with pytest.raises(BadCheckpoint, match="UM-PS-113"):
        checkpoint.save(servers, tmp_path / "c", metadata={"a": math.nan})
    assert os.listdir(tmp_path) == []


# ---- finding and keeping


def test_the_newest_whole_one_is_found(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path / "absent") == checkpoint.Found(path=None, manifest=None, skipped=())
    for step, name in enumerate(["b", "a", "c", "d"]):
        helpers.save_small(tmp_path / name, step=step, saved=100.0 + step)
    checkpoint.partial(tmp_path / "e").mkdir()
    (tmp_path / "logs").mkdir()
    assert checkpoint.newest(tmp_path).path == tmp_path / "d"
    os.truncate(tmp_path / "d" / "MANIFEST", 50)
    (tmp_path / "c" / "shard-00000.umiak").unlink()
    found = checkpoint.newest(tmp_path)
    assert found.path == tmp_path / "a"
    assert found.manifest
    assert found.manifest.step == 1
    assert found.skipped == (
        f"{tmp_path}/c/shard-00000.umiak: a file is missing",
        f"{tmp_path}/d/MANIFEST: the manifest is cut off: its last line is not a checksum",
        f"{tmp_path}/e.partial: was never finished",
    )


def test_old_ones_are_removed(tmp_path: Path) -> None:
    for step in range(5):
        helpers.save_small(tmp_path / f"step-{step}", step=step, saved=float(step))
    os.truncate(tmp_path / "step-3" / "MANIFEST", 50)
    (tmp_path / "x.removing").mkdir()
    checkpoint.partial(tmp_path / "y").mkdir()
    assert checkpoint.keep(tmp_path, 2) == (tmp_path / "step-0", tmp_path / "step-1")
    assert sorted(os.listdir(tmp_path)) == ["step-2", "step-3", "step-4", "y.partial"]
    assert checkpoint.keep(tmp_path, 9) == ()
    with pytest.raises(ValueError, match="at least one"):
        checkpoint.keep(tmp_path, 0)


# ---- exports


def save_tables(path: Path, shards: int = 4) -> None:
    elements = np.arange(25, dtype=np.float32)

    def tables(shard: int) -> list:
        keys = [shard * 10 + n for n in range(shard)]  # shard 0 has none
        pieces = [helpers.rows(keys[:2], 6), helpers.rows(keys[2:], 6)]
        mine = elements[shard * 8 : shard * 8 + 8]
        return [
            ("emb", SPARSE, None, pieces),
            ("counted", COUNTED, None, [*pieces, helpers.rows([900 + shard], 6, flags=5)]),
            ("ctr", CTR, None, [helpers.rows(keys, 13, flags=2)]),
            ("net", DENSE, None, [(shard * 8, mine, mine[:0])] if len(mine) else []),
        ]

    specs = {"emb": SPARSE, "counted": COUNTED, "ctr": CTR, "net": DENSE}
    helpers.save(path, tables, [(name, spec, None) for name, spec in specs.items()], shards)


KEYS = [10, 20, 21, 30, 31, 32]


@pytest.mark.parametrize("table", ["emb", "counted", "ctr"])
def test_parquet_is_read_by_others(tmp_path: Path, table: str) -> None:
    save_tables(tmp_path / "c")
    done = export.to_parquet(tmp_path / "c", table, tmp_path / "t.parquet")
    assert (done.rows, done.step, done.bytes) == (6, 5, (tmp_path / "t.parquet").stat().st_size)
    read = pq.ParquetFile(tmp_path / "t.parquet")
    assert read.metadata.num_row_groups == 3
    rows = read.read()
    begin = 7 if table == "ctr" else 0
    assert rows["key"].to_pylist() == KEYS
    assert rows["value"].to_pylist() == [[key * 100 + begin + n for n in range(3)] for key in KEYS]
    statistics = ["show", "click", "embed_w"] if table == "ctr" else []
    assert rows.column_names == ["key", *statistics, "value"]
    for column, name in enumerate(statistics, 3):
        assert rows[name].to_pylist() == [key * 100 + column for key in KEYS]
    assert str(rows.schema.field("value").type) == "fixed_size_list<element: float not null>[3]"
    assert json.loads(rows.schema.metadata[b"umiak"])["table"] == table


@pytest.mark.parametrize("table", ["emb", "counted", "ctr"])
def test_safetensors_are_read_by_others(tmp_path: Path, table: str) -> None:
    save_tables(tmp_path / "c")
    assert export.to_safetensors(tmp_path / "c", table, tmp_path / "t.safetensors").rows == 6
    tensors = load_file(tmp_path / "t.safetensors")
    begin = 7 if table == "ctr" else 0
    assert tensors[f"{table}.keys"].dtype == np.uint64
    assert tensors[f"{table}.keys"].tolist() == KEYS
    assert tensors[f"{table}.values"].tolist() == [[key * 100 + begin + n for n in range(3)] for key in KEYS]
    assert len(tensors) == (5 if table == "ctr" else 2)
    if table == "ctr":
        assert tensors["ctr.click"].tolist() == [key * 100 + 4 for key in KEYS]


class Alone:
    """A client with one real table in this process."""

    def __init__(self, table: umiak_native.Table) -> None:
        self.table = table

    def save(self, request: str) -> str:
        return json.dumps([local.save_tables(json.loads(request), {"emb": self.table}, self.table.shards)])

    def load(self, request: str) -> str:
        raise NotImplementedError


@pytest.mark.parametrize("spec", [SPARSE, COUNTED, CTR], ids=["plain", "counted", "accessor"])
@pytest.mark.parametrize("rule", ["sgd", "adagrad", "adagrad_shared", "adam", "adam_row", "ftrl"])
def test_exports_are_what_a_pull_gives(tmp_path: Path, spec: dict, rule: str) -> None:
    more = {
        "sgd": {},
        "adagrad": {"initial": 0.0, "epsilon": 1e-6},
        "adagrad_shared": {"initial_g2sum": 3.0},
        "adam": {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8},
        "adam_row": {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8},
        "ftrl": {"beta": 1.0, "l1": 0.0, "l2": 0.0},
    }
    optimizer = {"rule": rule, "learning_rate": 0.1, **more[rule]}
    spec = {**spec, "optimizer": optimizer}
    if spec["accessor"]:
        spec["accessor"] = {**spec["accessor"], "embed_optimizer": optimizer, "embedx_threshold": 3.0}
    table = umiak_native.Table(json.dumps(spec), 8)
    draw = np.random.default_rng(1)
    keys = draw.permutation(np.arange(50, dtype=np.uint64) * np.uint64(2**58 + 7))
    for pushed in (keys, keys[:30], keys[:10]):
        rows = draw.normal(size=(len(pushed), table.push_width)).astype(np.float32)
        if spec["accessor"]:
            rows[:, 1:3] = 1.0  # shown and clicked
        table.push(pushed, rows)
    checkpoint.save(Alone(table), tmp_path / "c")
    export.to_safetensors(tmp_path / "c", "emb", tmp_path / "t.safetensors")
    tensors = load_file(tmp_path / "t.safetensors")
    assert len(tensors["emb.keys"]) == (30 if spec["entry"]["by"] == "count" else 50)
    pulled = table.pull(tensors["emb.keys"], create=False)
    names = ["emb.show", "emb.click", "emb.embed_w"] if spec["accessor"] else []
    exported = [*(tensors[name][:, None] for name in names), tensors["emb.values"]]
    assert np.array_equal(np.concatenate(exported, axis=1), pulled)


def test_dense_arrays_keep_their_names(tmp_path: Path) -> None:
    save_tables(tmp_path / "c")
    assert export.to_safetensors(tmp_path / "c", "net", tmp_path / "t.safetensors").rows == 25
    tensors = load_file(tmp_path / "t.safetensors")
    assert set(tensors) == {"fc.w", "fc.b", "scale"}
    assert np.array_equal(tensors["fc.w"], np.arange(20).reshape(5, 4))
    assert np.array_equal(tensors["fc.b"], np.arange(20, 24))
    assert tensors["scale"].shape == ()
    assert tensors["scale"] == 24
    with pytest.raises(BadCheckpoint, match=r"ends in \.safetensors"):
        export.to_parquet(tmp_path / "c", "net", tmp_path / "t.parquet")


def test_an_empty_table_is_exported(tmp_path: Path) -> None:
    helpers.save(tmp_path / "c", lambda shard: [("emb", SPARSE, None, [])], [("emb", SPARSE, None)])
    export.to_parquet(tmp_path / "c", "emb", tmp_path / "t.parquet")
    export.to_safetensors(tmp_path / "c", "emb", tmp_path / "t.safetensors")
    assert pq.read_table(tmp_path / "t.parquet").num_rows == 0
    assert load_file(tmp_path / "t.safetensors")["emb.values"].shape == (0, 3)


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_ROW_GROUP_BYTES", 1)
    save_tables(tmp_path / "c")
    export.to_parquet(tmp_path / "c", "emb", tmp_path / "t.parquet")
    read = pq.ParquetFile(tmp_path / "t.parquet")
    assert read.metadata.num_row_groups == 4
    assert read.read()["key"].to_pylist() == KEYS


def test_a_damaged_file_leaves_no_export(tmp_path: Path) -> None:
    save_tables(tmp_path / "c")
    file = tmp_path / "c" / "shard-00003.umiak"
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    for write, name in ((export.to_parquet, "t.parquet"), (export.to_safetensors, "t.safetensors")):
        with pytest.raises(BadCheckpoint) as caught:
            write(tmp_path / "c", "emb", tmp_path / name)
        assert codes(caught.value) == ["UM-PS-108"]
        assert caught.value.problems[0].where == str(file)
        assert "because: it is damaged: the checksum" in str(caught.value)
    assert os.listdir(tmp_path) == ["c"]


def test_a_manifest_that_counts_other_rows_is_refused(tmp_path: Path) -> None:
    directory = checkpoint.partial(tmp_path / "c")
    directory.mkdir()
    file = helpers.write_shard(directory, 0, 1, [("emb", SPARSE, None, [helpers.rows([1, 2], 6)])])
    for name, rows in (("more", 3), ("fewer", 1)):
        wrong = helpers.make_manifest([{**file, "rows": {"emb": rows}}], [("emb", SPARSE, None)], 1)
        (directory / "MANIFEST").write_bytes(manifest.to_bytes(wrong))
        with pytest.raises(BadCheckpoint, match="don't hold what its manifest says"):
            export.to_safetensors(directory, "emb", tmp_path / name)
    other = helpers.make_manifest([file], [("emb", {**SPARSE, "dim": 2}, None)], 1)
    (directory / "MANIFEST").write_bytes(manifest.to_bytes(other))
    with pytest.raises(BadCheckpoint, match="don't hold what its manifest says"):
        export.to_parquet(directory, "emb", tmp_path / "p")
    assert os.listdir(tmp_path) == ["c.partial"]


def test_all_of_a_checkpoint_as_dicts(tmp_path: Path) -> None:
    save_tables(tmp_path / "c")
    tables = export.contents(tmp_path / "c")
    assert list(tables) == ["emb", "counted", "ctr", "net"]
    assert sorted(tables["emb"]["rows"]) == KEYS
    assert tables["counted"]["rows"][901][0] == 5
    assert tables["emb"]["rows"][31][1].tolist() == [3100 + n for n in range(6)]
    assert tables["net"]["values"].tolist() == list(range(25))
    assert tables["ctr"]["spec"] == CTR


def command(*words: str, status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "umiak.ps.export", *words],
        capture_output=True,
        text=True,
        env=ENVIRON,
        timeout=PATIENCE_S,
    )
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_the_command_line(tmp_path: Path) -> None:
    save_tables(tmp_path / "c")
    out, err = command(str(tmp_path / "c"), "--table", "emb", "--to", str(tmp_path / "t.parquet"))
    assert err == ""
    assert json.loads(out)["rows"] == 6
    assert pq.read_table(tmp_path / "t.parquet").num_rows == 6
    assert "examples:" in command("--help")[0]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["--table", "no", "--to", "t.parquet"],
            2,
            "no such table: no [UM-PS-121]\n  hint: it has these tables: emb, counted",
        ),
        (["--table", "emb", "--to", "t.csv"], 2, "[UM-PS-125]"),
        (["--table", "emb", "--to", "absent/t.parquet"], 2, "[UM-PS-124]"),
    ],
)
def test_the_command_line_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    said: str,
) -> None:
    save_tables(tmp_path / "c")
    monkeypatch.chdir(tmp_path)
    assert export.main(["c", *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_the_command_line_lists_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tables(tmp_path / "c")
    assert export.main([str(tmp_path / "c")]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {name: table["rows"] for name, table in listed["tables"].items()} == {
        "emb": 6,
        "counted": 10,
        "ctr": 6,
        "net": 25,
    }
    with pytest.raises(SystemExit) as caught:
        export.main(["c", "--table", "emb"])
    assert caught.value.code == 2


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tables(tmp_path / "c")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadCheckpoint, match="pip install"):
        export.to_parquet(tmp_path / "c", "emb", tmp_path / "t.parquet")

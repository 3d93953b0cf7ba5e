"""Small checkpoints, and a reader and writer of shard files that shares no line with the product: only docs/reference/checkpoints.md."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import umiak_native

from umiak.ps import checkpoint
from umiak.ps.manifest import Table

SPARSE = {
    "kind": "sparse",
    "dim": 3,
    "seed": 7,
    "init": {"kind": "constant", "value": 0.1},
    "optimizer": {"rule": "adagrad", "learning_rate": 0.1, "initial": 0.0, "epsilon": 1e-6},
    "clip": {"value": None, "norm": None, "weight": None},
    "entry": {"by": "always"},
    "accessor": None,
}
COUNTED = {**SPARSE, "entry": {"by": "count", "count": 2}}
CTR = {
    **SPARSE,
    "accessor": {
        "embed_optimizer": {"rule": "adagrad", "learning_rate": 0.1, "initial": 0.0, "epsilon": 1e-6},
        "embed_init": {"kind": "constant", "value": 0.0},
        "nonclk_coeff": 0.1,
        "click_coeff": 1.0,
        "embedx_threshold": 10.0,
        "base_threshold": 1.5,
        "delta_threshold": 0.25,
        "delta_keep_days": 16.0,
        "show_click_decay_rate": 0.98,
        "delete_threshold": 0.8,
        "delete_after_unseen_days": 30.0,
        "show_scale": True,
        "zero_init": True,
    },
}
DENSE = {
    "kind": "dense",
    "arrays": [{"name": "fc.w", "shape": [5, 4]}, {"name": "fc.b", "shape": [4]}, {"name": "scale", "shape": []}],
    "optimizer": {"rule": "sgd", "learning_rate": 0.5},
    "clip": {"value": None, "norm": None, "weight": None},
}

MAGIC = b"UMIAKSHD"
HEADER, TABLE, ROWS, DENSE_PIECE, NUMBERS, END = range(1, 7)


def rows(keys, width, flags=0):
    """A piece of a sparse table: numbers that tell their key."""
    keys = np.asarray(keys, np.uint64)
    data = (keys.astype(np.float32)[:, None] * 100 + np.arange(width, dtype=np.float32)).astype(np.float32)
    return keys, np.full(len(keys), flags, np.uint32), data


def write_shard(directory: Path, shard: int, shards: int, tables, step: int = 5, count: int = 1) -> dict:
    """``tables``: (name, spec, state, pieces)."""
    head = json.dumps({"shards": shards, "shard": shard, "count": count, "step": step, "about": None})
    plain = [(name, json.dumps(spec), json.dumps(state), pieces) for name, spec, state, pieces in tables]
    return json.loads(umiak_native.write_shard_file(directory, f"shard-{shard:05}.umiak", head, plain))


def make_manifest(files, tables, shards, *, name="c", step=5, saved=1000.0, metadata=None) -> checkpoint.Manifest:
    return checkpoint.Manifest(
        name=name,
        shards=shards,
        step=step,
        saved=saved,
        tables={name: Table(spec=spec, state=state) for name, spec, state in tables},
        files=tuple(checkpoint.ShardFile(**file) for file in files),
        metadata=metadata or {},
    )


def save(path: Path, tables_of_shard, tables, shards: int = 2, **about) -> checkpoint.Manifest:
    """A checkpoint; ``tables_of_shard(shard)`` gives each file's tables."""
    directory = checkpoint.partial(path)
    directory.mkdir(parents=True)
    files = [write_shard(directory, shard, shards, tables_of_shard(shard)) for shard in range(shards)]
    manifest = make_manifest(files, tables, shards, name=path.name, **about)
    checkpoint.publish(manifest, path)
    return manifest


def save_small(path: Path, **about) -> checkpoint.Manifest:
    def tables(shard):
        return [("emb", SPARSE, {"learning_rate": 0.1}, [rows([shard, shard + 10], 6)])]

    return save(path, tables, [("emb", SPARSE, {"learning_rate": 0.1})], **about)


# ---- the format, by hand


def block(kind: int, number: int, content: bytes) -> bytes:
    head = struct.pack("<III", len(content), kind, number)
    return head + struct.pack("<I", crc32(head + content)) + content


def file_of(blocks, magic: bytes = MAGIC, version: int = 2) -> bytes:
    """A shard file from (kind, content); dicts become JSON."""
    out = magic + struct.pack("<II", version, 0)
    for number, (kind, content) in enumerate(blocks):
        out += block(kind, number, content if isinstance(content, bytes) else json.dumps(content).encode())
    return out


def blocks_of(content: bytes):
    """The blocks of a shard file: (kind, content), every checksum checked."""
    assert content[:16] == MAGIC + struct.pack("<II", 2, 0)
    at, number = 16, 0
    while at < len(content):
        length, kind, found, crc = struct.unpack_from("<IIII", content, at)
        body = content[at + 16 : at + 16 + length]
        assert found == number
        assert crc == crc32(content[at : at + 12] + body)
        yield kind, body
        at += 16 + length
        number += 1


def rows_block(keys, flags, data) -> bytes:
    data = np.asarray(data, "<f4")
    head = struct.pack("<II", len(keys), data.shape[1])
    return head + np.asarray(keys, "<u8").tobytes() + np.asarray(flags, "<u4").tobytes() + data.tobytes()

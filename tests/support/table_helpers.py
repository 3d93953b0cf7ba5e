"""Native tables for tests: short ways to make, fill and save them."""

from __future__ import annotations

import json

import numpy as np
import umiak_native

from tests.support.oracle import tables as oracle

CONSTANT = {"kind": "constant", "value": 1.0}
SGD = {"rule": "sgd", "learning_rate": 0.5}

CTR = {
    "embed_optimizer": SGD,
    "embed_init": CONSTANT,
    "nonclk_coeff": 0.1,
    "click_coeff": 1.0,
    "embedx_threshold": 10.0,
    "base_threshold": 1.5,
    "delta_threshold": 0.25,
    "delta_keep_days": 16.0,
    "show_click_decay_rate": 0.5,
    "delete_threshold": 0.8,
    "delete_after_unseen_days": 2.0,
    "show_scale": True,
    "zero_init": True,
}


def table(optimizer=SGD, *, dim=1, init=CONSTANT, shards=8, **more) -> umiak_native.Table:
    spec = {"kind": "sparse", "dim": dim, "seed": 1, "init": init, "optimizer": optimizer, **more}
    return umiak_native.Table(json.dumps(spec), shards)


def counting(*, dim=1, optimizer=SGD, entry=None, **accessor) -> umiak_native.Table:
    return table(optimizer, dim=dim, accessor={**CTR, **accessor}, **({"entry": entry} if entry else {}))


def keys(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def rows(*numbers: list[float]) -> np.ndarray:
    return np.array(numbers, np.float32)


def pushed(optimizer: dict, *gradients: float, **more) -> float:
    """The weight, first 1.0, after pushes of these gradients."""
    here = table(optimizer, **more)
    for gradient in gradients:
        here.push(keys(5), rows([gradient]))
    return here.pull(keys(5))[0, 0]


def saved(here: umiak_native.Table, mode: str = "all", thaw: bool = True) -> oracle.SavedRows:
    here.freeze(mode)
    found = scanned(here)
    here.thaw(thaw)
    return found


def scanned(here: umiak_native.Table) -> oracle.SavedRows:
    found = {}
    for shard in range(here.shards):
        for batch, flags, data in here.scan(shard):
            found |= {key: (flag, row) for key, flag, row in zip(batch.tolist(), flags.tolist(), data, strict=True)}
    return found

"""Requests with raw features: what becomes of them, and which models are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from umiak.core.problem import UmiakError
from umiak.data import features
from umiak.schema.features import reading
from umiak.serving import raw_features
from umiak.serving.protocol import ServedInput, ServedSignature
from umiak.web.messages import HttpRefusal

CONFIG = """features:
  columns:
    - {name: user, from: uid, kind: id}
    - {name: city, kind: id, vocab: [x, y]}
    - {name: hist, kind: sequence, of: city, max_len: 2}
    - {name: price, kind: number, transform: log1p}
  label: click
"""


def sparse(name: str) -> ServedInput:
    return ServedInput(name=name, is_sparse=True, dtype="int64", shape=(None, None), padding=-1)


def dense(name: str, width: int) -> ServedInput:
    return ServedInput(name=name, is_sparse=False, dtype="float32", shape=(None, width))


def signature(*inputs: ServedInput) -> ServedSignature:
    return ServedSignature(inputs=inputs, outputs=())


@pytest.fixture
def lock(tmp_path: Path) -> features.FeatureLock:
    (tmp_path / "config.yaml").write_text(CONFIG)
    made = features.of_section(reading.load(tmp_path))
    features.write_lock(made, str(tmp_path / "features.lock.json"))
    return made


def test_columns_become_inputs(lock: features.FeatureLock, tmp_path: Path) -> None:
    raw = raw_features.of(str(tmp_path), signature(dense("price", 1), sparse("user"), sparse("city"), sparse("hist")))
    assert raw is not None
    rows = [{"uid": "u1", "city": "y", "hist": ["x", "z", None], "price": 3}, {"uid": 7, "hist": []}]
    asked = raw.request(json.dumps({"instances": rows}).encode())
    assert (asked.rows, list(asked.arrays)) == (2, ["price", "user", "city", "hist"])
    expected = features.FeatureTransform(lock).rows(rows).features
    assert asked.arrays["price"].tolist() == [[np.log1p(np.float64(3)).astype(np.float32)], [0.0]]
    assert asked.arrays["user"].view(np.uint64)[:, 0].tolist() == expected["user"].ids.tolist()  # type: ignore[union-attr]
    keys = features.keys_of("city", np.array([4, 1, 2], np.uint64)).view(np.int64).tolist()
    assert asked.arrays["city"].tolist() == [[keys[0]], [keys[1]]]
    assert asked.arrays["hist"].tolist() == [[keys[2], keys[1]], [-1, -1]]
    assert {array.dtype.name for array in asked.arrays.values()} == {"float32", "int64"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"instances": []}, "instances are missing"),
        ({"instances": [{"user": "u"}]}, "no feature has the column 'user'"),
        ({"instances": [{"price": "cheap"}]}, "a number is expected"),
        ({"instances": [3]}, "an object with columns is expected"),
        ({"instances": [{"hist": "x"}]}, "a list is expected"),
    ],
)
def test_what_is_wrong_is_a_bad_request(body: object, words: str, lock: features.FeatureLock, tmp_path: Path) -> None:
    raw = raw_features.of(str(tmp_path), signature(sparse("user")))
    assert raw is not None
    with pytest.raises(HttpRefusal, match=words) as caught:
        raw.request(json.dumps(body).encode())
    assert caught.value.status == 400


def test_a_lock_of_another_model_is_refused(lock: features.FeatureLock, tmp_path: Path) -> None:
    for other in (sparse("item"), sparse("price"), dense("user", 1), dense("price", 2)):
        with pytest.raises(ValueError, match="of another model"):
            raw_features.of(str(tmp_path), signature(other))
    path = tmp_path / "features.lock.json"
    path.write_text(path.read_text().replace('"dim": 16', '"dim": 17', 1))
    with pytest.raises(UmiakError, match="damaged"):
        raw_features.of(str(tmp_path), signature(sparse("user")))
    path.unlink()
    assert raw_features.of(str(tmp_path), signature(sparse("user"))) is None

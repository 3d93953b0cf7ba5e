"""Streams in configs: what is read, what does not go together, secrets, both layouts, and the way back; where a run is in its topic."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.train_helpers import read
from umiak.core.problem import UmiakError
from umiak.train.config import writing
from umiak.train.config.streams.client_settings import problems_of
from umiak.train.config.streams.settings import Edge, MessageFormat, StreamPlace
from umiak.train.config.values import RunnerClass
from umiak.train.run.streams import state

CONFIG = """
workspace: "."
mode: online
runner:
- {name: online, class: online_learning, checkpoint_per_pass: 2, phases: [train], evaluate_phase: test, save_checkpoint_path: out}
phase:
- {name: train, model: model.py, dataset_name: clicks}
- {name: test, model: model.py, dataset_name: test}
dataset:
- name: clicks
  data_path: kafka://b:9092/clicks
  batch_size: 64
  sparse_slots: "click 1 2"
  stream: {until: 2026-01-31T12:00:00, start_from: 7, client: {sasl.password: "${P}", fetch.min.bytes: 1}}
- {name: test, data_path: data, batch_size: 200, sparse_slots: "click 1 2"}
"""


def told(text: str) -> str:
    found = read(text)
    return "\n".join(
        f"{each.code} {each.what} {each.why or ''} {each.hint or ''}" for each in (*found.problems, *found.warnings)
    )


def test_what_a_stream_says_and_the_way_back() -> None:
    config = read(CONFIG).config
    assert config is not None
    stream, runner = config.dataset("clicks").stream, config.runner("online")
    assert stream is not None
    assert stream.format is MessageFormat.SLOTS, "slots are declared"
    assert stream.start_from == StreamPlace(offset=7)
    assert stream.until == StreamPlace(time_s=1769860800.0)
    assert runner.keep_checkpoints == 3, "a stream has no last epoch"
    assert runner.evaluation is not None
    assert config.dataset("test").stream is None
    plain = writing.plain(config)
    assert "${P}" in str(plain)
    assert read(yaml.safe_dump(plain)).config == config


def test_the_newer_layout() -> None:
    text = """
runner: {train_data_dir: kafka://b:9092/clicks, train_batch_size: 64, worker_num: 2, server_num: 1, sync_mode: async, train_stream: {until: end},
  evaluate_data_dir: data, sparse_slots: "click 1 2", model_save_path: out}
"""
    config = read(text).config
    assert config is not None, told(text)
    assert config.runners[0].kind is RunnerClass.ONLINE_LEARNING
    assert config.runners[0].evaluation is not None
    stream = config.dataset("train").stream
    assert stream is not None
    assert stream.until == StreamPlace(edge=Edge.END)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "2026-01-31T12:00:00",
            "soon",
            "UM-CONFIG-014 dataset clicks: stream: until: expected end, an offset, or a time, got soon",
        ),
        ("start_from: 7", "start_from: -1", "no offset: -1"),
        ("class: online_learning", "class: train, epochs: 1", "class train reads files, and the data is a stream"),
        ("data_path: data", "data_path: kafka://b/x", "phase test reads a stream, which has no end"),
        ("phases: [train]", "phases: [train, test]", "a stream is trained on by one phase"),
        ("checkpoint_per_pass: 2", "start_day: 20260131", "no effect: start_day the data is a stream"),
        (
            '  sparse_slots: "click 1 2"\n  stream',
            "  data_converter: reader.py\n  stream",
            "a reader class reads files",
        ),
        ("{until", "{format: json, until", "slots are declared, and format is json"),
        ("kafka://b:9092/clicks", "clicks", "no effect: stream data_path is no stream"),
        ('"${P}"', "hunter2", "sasl.password is a secret"),
    ],
)
def test_what_does_not_go_together(old: str, new: str, expected: str) -> None:
    assert old in CONFIG
    found = told(CONFIG.replace(old, new))
    assert expected in found
    assert "hunter2" not in found


def test_csv_needs_names_of_columns() -> None:
    text = CONFIG.replace('  sparse_slots: "click 1 2"\n  stream: {', "  stream: {format: csv, ")
    features = "features: {label: click, columns: [{name: user, kind: id}]}\n"
    assert "nothing says what the columns of a message are" in told(text + features)
    assert "columns of a message" not in told(
        text.replace("  stream", "  column_names: [click, user]\n  stream") + features
    )


def test_settings_that_a_config_may_give() -> None:
    allowed = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.password": "${PASSWORD}",
        "ssl.ca.location": "ca.pem",
        "group.id": "ctr",
        "fetch.wait.max.ms": "100",
    }
    assert problems_of(allowed) == ()
    for name in (
        "plugin.library.paths",
        "ssl.engine.location",
        "sasl.kerberos.kinit.cmd",
        "ssl.providers",
        "debug",
        "enable.auto.commit",
        "bootstrap.servers",
    ):
        (problem,) = problems_of({name: "x"})
        assert name in problem.what
    for name in ("sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"):
        (problem,) = problems_of({name: "hunter2"})
        assert "hunter2" not in problem.what + problem.hint


def test_where_a_run_is() -> None:
    begun = state.StreamState(topic="t", offsets={"0": 5, "1": 7}).within(("0@5-9", "2@0-4"), "2026-01-31")
    assert begun.behind().position == {0: 9, 1: 7, 2: 4}
    assert begun.behind().spans == ()
    again = state.from_json(begun.to_json(), "t", "out/1")
    assert again == begun
    with pytest.raises(UmiakError, match="was trained on topic t, and data_path names u"):
        state.from_json(begun.to_json(), "u", "out/1")
    fresh: Any = state.from_json("", "t", None)
    assert fresh.position == {}

"""Online learning from a real Kafka: every message once whatever is killed, the same bits after a stop, passes, ends, formats, secrets, and what goes wrong."""

from __future__ import annotations

import importlib.util
import json
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.kafka import Broker
from testbed.pytest_support import require
from tests.support import chance, train_runs
from tests.support.train_runs import Work, slow
from umiak.ps import checkpoint as checkpoints
from umiak.ps import export

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.kafka,
    pytest.mark.usefixtures("paddle"),
    pytest.mark.timeout(300),
]

MESSAGES = 1000
PARTITIONS = 3
PACE_S = 0.02

COUNTING = """\
import os
import signal
import time
from pathlib import Path

import paddle

from umiak.models import Model as Base
from umiak.models import Constant, Sgd


class Model(Base):
    \"\"\"Adds one to the row of each message's own id: what a row holds is how often its message was learned.\"\"\"

    def __init__(self, hyper, slots, tables):
        super().__init__(hyper, slots, tables)
        self.embedding = tables.embedding(1, init=Constant(0.0), rule=Sgd(learning_rate=1.0))
        Path("trainers").mkdir(exist_ok=True)
        Path("trainers", str(os.getpid())).touch()

    def forward(self, inputs):
        if "KILL" in os.environ and self.training:
            whom, moment = os.environ["KILL"].split(":")
            with open("begun", "a") as file:
                file.write(".")
            if os.path.getsize("begun") >= int(moment):
                kill(whom)
        return {"row": self.embedding(inputs.ids("id")).flatten(1)}

    def loss(self, results, inputs):
        return -results["row"].sum()


def kill(whom):
    try:
        os.mkdir("killed")
    except FileExistsError:
        return
    if whom == "trainer":
        os.kill(os.getpid(), signal.SIGKILL)
    launcher = os.getppid()
    workers = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    servers = [each for each in workers if not Path("trainers", each).exists()]
    os.kill(int(servers[0]), signal.SIGKILL)
"""

RUNNER = "class: online_learning, seed: 1, phases: [train], evaluate_phase: test, print_interval: 2, checkpoint_per_pass: 2, save_step_interval: 2"
CONFIG = f"""\
workspace: "./"
mode: [alone]
runner:
- {{name: alone, save_checkpoint_path: out/alone, save_step_path: steps/alone, {RUNNER}}}
- {{name: async, worker_num: 2, server_num: 2, distribute_strategy: async, save_checkpoint_path: out/async, save_step_path: steps/async, {RUNNER}}}
- {{name: collective, worker_num: 3, fleet_mode: collective, save_checkpoint_path: out/collective, save_step_path: steps/collective, {RUNNER}}}
- {{name: sync, worker_num: 2, server_num: 1, distribute_strategy: sync, save_checkpoint_path: out/sync, save_step_path: steps/sync, {RUNNER}}}
phase:
- {{name: train, model: "{{workspace}}/model.py", dataset_name: stream}}
- {{name: test, model: "{{workspace}}/model.py", dataset_name: test}}
dataset:
- name: stream
  data_path: kafka://BROKER/TOPIC
  batch_size: 32
  SLOTS
  stream: {{until: end, pass_messages: 300, MORE}}
- {{name: test, data_path: data, batch_size: 200, SLOTS}}
hyper_parameters: {{OWN optimizer: {{class: Adam, learning_rate: 0.02}}}}
"""
"""Passes of 100 messages of each partition: four."""


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def filled(
    path: Path, broker: Broker, topic: str, model: str, slots: str, *, own: str = "", more: str = "wait_seconds: 1"
) -> Work:
    text = CONFIG.replace("BROKER", broker.bootstrap).replace("TOPIC", topic).replace("OWN", own).replace("MORE", more)
    lines = [
        line.replace("SLOTS", slots if line.strip() == "SLOTS" else slots.replace("\n  ", ", "))
        for line in text.splitlines()
    ]
    (path / "config.yaml").write_text("\n".join(lines) + "\n")
    (path / "model.py").write_text(model)
    (path / "data").mkdir()
    return Work(path)


def topic_of(broker: Broker, messages: list[bytes], **settings: str) -> str:
    """A topic with these in three partitions, of different lengths."""
    name = f"t{time.monotonic_ns()}"
    broker.topic(name, PARTITIONS, **settings)
    for partition, share in enumerate(parted(messages)):
        broker.write(name, share, partition=partition)
    return name


def parted(messages: list[Any]) -> list[list[Any]]:
    first, second = len(messages) // 2, len(messages) * 4 // 5
    return [messages[:first], messages[first:second], messages[second:]]


def counting(path: Path, broker: Broker) -> Work:
    messages = [f"id:{number} click:{number % 2}".encode() for number in range(1, MESSAGES + 1)]
    work = filled(path, broker, topic_of(broker, messages), COUNTING, 'sparse_slots: "id click"')
    (path / "data" / "part").write_bytes(b"\n".join(messages[:40]) + b"\n")
    return work


def clicks(path: Path, broker: Broker) -> Work:
    slots = 'sparse_slots: "click 1 2 3 4"\n  dense_slots: "price:2"'
    messages = train_runs.lines(MESSAGES, 1)[0].encode().splitlines()
    work = filled(path, broker, topic_of(broker, messages), train_runs.MODEL, slots, own="dim: 4,")
    (path / "data" / "part").write_text(train_runs.lines(400, 1, seed=9)[0])
    return work


def passes(work: Work, runner: str) -> list[dict[str, Any]]:
    """Those that were told last."""
    rows = {row["pass"]: row for row in work.metrics(runner) if row["event"] == "pass"}
    return [rows[number] for number in sorted(rows)]


def last(work: Work, runner: str) -> Path:
    return max((work.path / "out" / runner).iterdir(), key=lambda each: int(each.name))


def offsets(checkpoint: Path) -> dict[str, int]:
    saved: Any = checkpoints.read(str(checkpoint)).metadata["umiak_train"]
    found: dict[str, int] = json.loads(saved["stream"])["offsets"]
    return found


def learned(checkpoint: Path) -> dict[int, float]:
    """How often each message was learned."""
    (table,) = [each for each in export.contents(str(checkpoint)).values() if "rows" in each]
    return {int(key): float(np.asarray(row)[0]) for key, (_, row) in table["rows"].items()}


# ---- every message once


@pytest.mark.parametrize(("runner", "whom"), [("async", "server"), ("async", "trainer"), ("collective", "trainer")])
def test_every_message_is_learned_once_whatever_is_killed(
    tmp_path: Path, kafka_broker: Broker, runner: str, whom: str
) -> None:
    work = counting(tmp_path, kafka_broker)
    killed = work.run_forked(runner, env={"KILL": f"{whom}:{chance().randrange(4, 14)}"})
    assert (tmp_path / "killed").exists()
    # Its servers keep nothing on the disk, so that the job ends with one of them, too.
    assert killed.status != 0, killed.said
    there = work.names("steps", runner) or work.names("out", runner)
    done = work.run_forked(runner, *(["--resume"] if there else []))
    assert done.status == 0, done.said
    checkpoint = last(work, runner)
    expected = dict.fromkeys(range(1, MESSAGES + 1), 1.0)
    if runner == "collective":  # each trainer's gradients count by its share of a step
        (tmp_path / "whole").mkdir()
        whole = counting(tmp_path / "whole", kafka_broker)
        assert whole.run_forked(runner).status == 0
        expected = learned(last(whole, runner))
        assert expected.keys() == set(range(1, MESSAGES + 1))
    assert learned(checkpoint) == expected
    assert offsets(checkpoint) == {"0": 500, "1": 300, "2": 200}
    assert sum(row["samples"] for row in passes(work, runner)) == MESSAGES


def test_stopped_and_killed_it_goes_on_to_the_same_bits(tmp_path: Path, kafka_broker: Broker) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "work").mkdir()
    whole, work = clicks(tmp_path / "whole", kafka_broker), clicks(tmp_path / "work", kafka_broker)
    words = ("-o", f"runner.alone.shuffle={chance().choice([0, 70])}")
    assert whole.here("alone", *words).status == 0
    for number in (signal.SIGKILL, signal.SIGTERM):
        moment = work.paced() + chance().randrange(2, 9)
        resume = ["--resume"] if work.names("steps", "alone") else []
        started = work.fork("alone", *resume, *words, env=slow(PACE_S))
        started.until(lambda moment=moment: work.paced() >= moment, "some batches")  # type: ignore[misc]
        started.signal(number)
        started.end()
    done = work.here("alone", "--resume" if work.names("steps", "alone") else "--quiet", *words)
    assert done.status == 0, done.said
    ends = last(work, "alone")
    assert ends.name == "3"
    assert work.checkpoint("out", "alone", "3") == whole.checkpoint("out", "alone", "3")
    rows = passes(work, "alone")
    assert [row["samples"] for row in rows] == [300, 300, 300, 100]
    assert [bool(row["evaluated"]) for row in rows] == [False, True, False, True]
    assert rows[-1]["lag"] == 0
    again = work.here("alone", "--resume")
    assert again.status == 0, again.said
    assert passes(work, "alone") == rows


def test_messages_that_come_later_are_waited_for_with_a_password_that_nobody_sees(
    tmp_path: Path, kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = counting(tmp_path, kafka_broker)
    told = {**kafka_broker.secured_settings, "sasl.password": "${STREAM_PASSWORD}"}
    work.change(kafka_broker.bootstrap, kafka_broker.secured)
    work.change("until: end, pass_messages: 300", f"client: {json.dumps(told)}")
    monkeypatch.setenv("STREAM_PASSWORD", kafka_broker.password)
    topic = work.config.read_text().partition(f"{kafka_broker.secured}/")[2].split()[0]
    started = work.fork("alone", env={"STREAM_PASSWORD": kafka_broker.password})
    assert started.until(lambda: len(told_passes(work)) == 1, "a pass"), started.said
    late = [f"id:{MESSAGES + number} click:1".encode() for number in range(1, 6)]
    kafka_broker.write(topic, late, partition=1)
    assert started.until(lambda: len(told_passes(work)) == 2, "five messages, less than a batch"), started.said
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.status == 128 + signal.SIGTERM, done.said
    assert learned(last(work, "alone")) == dict.fromkeys(range(1, MESSAGES + 6), 1.0), "saved before it ended"
    progress = [row for row in work.metrics("alone") if row["event"] == "progress"]
    assert all(row["lag"] >= 0 for row in progress)
    assert "  lag " in done.said
    for file in [each for each in work.path.rglob("*") if each.is_file()]:
        assert kafka_broker.password.encode() not in file.read_bytes(), file


def told_passes(work: Work) -> list[dict[str, Any]]:
    return passes(work, "alone") if (work.path / "run" / "alone" / "metrics.jsonl").exists() else []


# ---- what goes wrong


def test_what_can_not_be_read_is_told(tmp_path: Path, kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    work = counting(tmp_path, kafka_broker)
    topic = work.config.read_text().partition(f"{kafka_broker.bootstrap}/")[2].split()[0]
    for words, told in (
        (["-o", "dataset.stream.data_path=kafka://127.0.0.1:1/clicks"], "UM-DATA-131"),
        (["-o", f"dataset.stream.data_path=kafka://{kafka_broker.bootstrap}/nothing"], "UM-DATA-132"),
        (["-o", f"dataset.stream.data_path=kafka://me:secret@{kafka_broker.bootstrap}/{topic}"], "UM-DATA-134"),
    ):
        monkeypatch.setattr("umiak.data.streams.kafka.ANSWER_S", 1.0)
        done = work.here("alone", *words)
        assert told in done.said, done.said
        assert "secret" not in done.said
    checked = work.here("alone", "--check")
    assert checked.status == 0, checked.said
    other = topic_of(kafka_broker, [b"id:1 click:1", b"nonsense", b"id:3 click:1"])
    done = work.here("alone", "-o", f"dataset.stream.data_path=kafka://{kafka_broker.bootstrap}/{other}")
    assert done.status == 2, done.said
    assert f"topic {other}, partition 1, offset 0" in done.said


def test_messages_that_were_deleted_before_they_were_read_are_no_silent_loss(
    tmp_path: Path, kafka_broker: Broker
) -> None:
    work = counting(tmp_path, kafka_broker)
    topic = work.config.read_text().partition(f"{kafka_broker.bootstrap}/")[2].split()[0]
    work.change("until: end", "until: 200")
    assert work.here("alone").status == 0
    work.change("until: 200", "until: end")
    kafka_broker.forget(topic, {0: 350})
    done = work.here("alone", "--resume")
    assert "UM-DATA-133" in done.said, done.said
    assert f"topic {topic}: messages 200 to 349 of partition 0 were deleted" in done.said
    other = topic_of(kafka_broker, [b"id:1 click:1"])
    done = work.here("alone", "--resume", "-o", f"dataset.stream.data_path=kafka://{kafka_broker.bootstrap}/{other}")
    assert "UM-TRAIN-611" in done.said, done.said

"""Trains every training runner of a PaddleRec 1.8.5 checkout with `umiak train`, alone and with 2 servers and 2 trainers, and notes how far each comes. A program.

    git -C PaddleRec archive v1.8.5 models | tar x -C /tmp/zoo
    python -m tools.zoo_1_8 /tmp/zoo                      goes on where it was interrupted
    python -m tools.zoo_1_8 /tmp/zoo --only rank/dnn --again

A line of JSON for each runner and way to train goes to `docs/zoo_1_8.jsonl`; `make docs` makes a table of `docs/reference/zoo.md` of it. One epoch, with the sample
data of the checkout, in an empty directory; each run has a limit for its time, one for the memory of all of its processes together and one for that of each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from tools.zoo_compare import waited

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "zoo_1_8.jsonl"
WAYS = {"alone": (0, 1), "2 + 2": (2, 2)}
"""Servers and trainers."""
LIMIT_S = 300
LIMIT_BYTES = 6 << 30
TAIL = 700
HOPELESS = ("UM-DATA-006", "UM-CONFIG-017")
"""No such data; a part of the trainer is replaced: with servers it is the same."""
BEFORE = {("rank/fnn/config.yaml", "train_DNN_runner"): "train_FM_runner"}
"""A runner that begins with what another one has saved, which is run before it."""
Known = dict[tuple[str, str, str], dict[str, Any]]


def runners(zoo: Path) -> list[tuple[str, str]]:
    """A config, below `models`, and the name of a runner of it that trains; the first runner of each config before all others."""
    models = zoo / "models"
    found = []
    for path in sorted(models.rglob("*.yaml")):
        made = yaml.safe_load(path.read_text(encoding="utf-8")).get("runner") or []
        names = [each["name"] for each in made if "train" in str(each.get("class"))]
        found += [(place, path.relative_to(models).as_posix(), name) for place, name in enumerate(names)]
    return [(config, name) for _, config, name in sorted(found)]


def words(config: str, runner: str, way: str, more: list[str]) -> list[str]:
    """Behind `umiak`."""
    servers, trainers = WAYS[way]
    settings = {"class": "train", "epochs": 1, "device": "cpu"}
    if servers:
        of_servers = {"fleet_mode": "ps", "server_num": servers, "worker_num": trainers, "distribute_strategy": "sync"}
        settings |= {"class": "local_cluster_train", **of_servers}
    names = [BEFORE[config, runner], runner] if (config, runner) in BEFORE else [runner]
    of_runners = [f"runner.{name}.{key}={text}" for name in names for key, text in settings.items()]
    overrides = [f"mode=[{','.join(names)}]", *of_runners, *more]
    return ["train", "-m", f"models/{config}", "-q", *(word for each in overrides for word in ("-o", each))]


def limited() -> None:
    """In each process of a run: memory of its own up to the limit."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))


def losses(run: Path) -> dict[str, Any]:
    """The first and the last loss of a run, its samples and its parameter servers' share, as `metrics.jsonl` has them."""
    found = [json.loads(line) for file in sorted(run.rglob("metrics.jsonl")) for line in file.read_text().splitlines()]
    rows = [each for each in found if each.get("event") == "progress"]
    ends = [each for each in found if each.get("event") == "epoch"]
    told = {} if not rows else {"first": rows[0]["recent"].get("loss"), "last": rows[-1]["recent"].get("loss")}
    return {**told, **({"samples": ends[-1].get("samples")} if ends else {})}


def train(zoo: Path, config: str, runner: str, way: str, more: list[str]) -> dict[str, Any]:
    """One line."""
    line: dict[str, Any] = {"config": config, "runner": runner, "way": way, "overrides": more}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zoo-1-8-") as place:
        (Path(place) / "models").symlink_to(zoo / "models")
        with (Path(place) / "said").open("w") as said:
            command = [sys.executable, "-m", "umiak", *words(config, runner, way, more)]
            started = subprocess.Popen(
                command,
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=limited,  # noqa: PLW1509 - this program has one thread
            )
            status, most = waited(started.pid, began + LIMIT_S, LIMIT_BYTES)
            started.returncode = 0  # it was waited for
        text = (Path(place) / "said").read_text(encoding="utf-8", errors="replace")
        line |= {"seconds": round(time.monotonic() - began, 1), "megabytes": most >> 20, **losses(Path(place) / "run")}
    if status == 0:
        return {**line, "verdict": "trains"}
    if status != "timeout" and most > 0.95 * LIMIT_BYTES:  # what a process may not take itself is an error of its own
        status = "memory"
    return {**line, "verdict": status if isinstance(status, str) else "fails", "said": text[-TAIL:].replace(place, ".")}


def load(results: Path) -> Known:
    """What is known already."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {(each["config"], each["runner"], each["way"]): each for each in map(json.loads, lines)}


def save(known: Known, results: Path) -> None:
    """All lines, in an order that changes nothing that was there."""
    partial = results.with_suffix(".partial")
    order = sorted(known, key=lambda key: (key[0], key[1], list(WAYS).index(key[2])))
    partial.write_text("".join(json.dumps(known[key]) + "\n" for key in order), encoding="utf-8")
    partial.replace(results)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("zoo", type=Path)
    parser.add_argument("--way", choices=[*WAYS], action="append")
    parser.add_argument("--only", action="append", help="a model, as rank/dnn")
    parser.add_argument("--again", action="store_true", help="those as well that are known")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("-o", "--override", action="append", default=[])
    asked = parser.parse_args()
    for config, runner in runners(asked.zoo.resolve()):
        if asked.only and config.rpartition("/")[0] not in asked.only:
            continue
        for way in asked.way or WAYS:
            known = load(asked.results)
            alone = known.get((config, runner, "alone"), {})
            if (config, runner, way) in known and not asked.again:
                continue
            if way != "alone" and any(code in alone.get("said", "") for code in HOPELESS):
                line = {**alone, "way": way, "seconds": 0.0}
            else:
                line = train(asked.zoo.resolve(), config, runner, way, asked.override)
            save({**load(asked.results), (config, runner, way): line}, asked.results)
            print(f"{config} {runner} {way}: {line['verdict']} ({line['seconds']} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compares umiak with plain Paddle over the models of a PaddleRec checkout: `umiak train --compare` for each, alone and with servers. A program.

    git -C PaddleRec archive HEAD models tools | tar x -C /tmp/zoo
    python -m tools.zoo_compare /tmp/zoo                        goes on where it was interrupted
    python -m tools.zoo_compare /tmp/zoo --only rank/dnn --again
    python -m tools.zoo_compare /tmp/zoo --part 1/2 --results first.jsonl     beside another one with --part 2/2, then
    python -m tools.zoo_compare /tmp/zoo --gather first.jsonl --gather second.jsonl

A line of JSON for each model and way to train goes to `docs/zoo.jsonl`; `make docs` makes the page `docs/reference/zoo.md` of it. Each comparison has a limit for its
time and one for the memory of all of its processes, and runs in the directory of its model, with the sample data that lies there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import runpy
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import zoo_rows

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "zoo.jsonl"
WAYS = {"alone": (0, 1), "1 + 1": (1, 1), "2 + 2": (2, 2)}
"""Servers and trainers."""
Known = dict[tuple[str, str, str], dict[str, Any]]
SEATS = "ZOO_COMPARE_SEATS"
KINDS = {"dygraph": ("plain", "dygraph_model.py"), "static": ("static", "static_model.py")}
STEPS = 5
MOST_SAMPLES = 16
"""Of a batch: smaller than most configs have it, so that sample data has enough of them and recurrent models take seconds."""
UNKNOWN = "not measured"
LIMIT_S = 300
LIMIT_BYTES = 8 << 30
"""Of all processes of a comparison together."""
HOPELESS = ("UM-DATA-006", "ModuleNotFoundError", "UM-TRAIN-540", "UM-TRAIN-582")
"""No such data; a package that is not there; it fails in plain Paddle."""
TAIL = 600
TRAINERS = {"dygraph": "trainer.py", "static": "static_trainer.py"}
OWN_LIMIT_S = 60
ERROR = re.compile(r"^[\w.]*(?:Error|Exception)\b: .+$", re.MULTILINE)
SAME = 120
"""Characters of an error that are compared: behind them may be an address."""


def models(zoo: Path, kind: str) -> list[str]:
    """``rank/dnn`` for each that has such a model."""
    found = (zoo / "models").rglob(KINDS[kind][1])
    return sorted(each.parent.relative_to(zoo / "models").as_posix() for each in found)


def config_of(zoo: Path, model: str) -> Path:
    """`config.yaml`, or the first with training data where a model has others instead."""
    directory = zoo / "models" / model
    usual = directory / "config.yaml"
    if usual.exists():
        return usual
    others = [each for each in sorted(directory.glob("*.yaml")) if "train_data_dir" in each.read_text("utf-8")]
    return others[0] if others else usual


def quickest_first(names: Sequence[str], kind: str, known: Known) -> list[str]:
    """Models by the time that they took alone; in their order where that is not known."""
    return sorted(names, key=lambda model: known.get((kind, model, "alone"), {}).get("seconds", 0.0))


def batch_size(config: Path) -> int | None:
    """What a config says, if it does."""
    if not config.exists():
        return None
    found = re.search(r"^\s*train_batch_size:\s*(\d+)", config.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) if found else None


def words(config: str, kind: str, way: str, more: list[str]) -> list[str]:
    """Behind `umiak`."""
    servers, trainers = WAYS[way]
    found = ["train", "-m", config, "--compare", KINDS[kind][0], "--steps", str(STEPS), "--json", "--quiet"]
    found += ["-o", "runner.use_gpu=False", *(["-o", "runner.sync_mode="] if kind == "static" and not servers else [])]
    if servers:
        said = {"sync_mode": "sync", "server_num": servers, "worker_num": trainers}
        found += [word for name, text in said.items() for word in ("-o", f"runner.{name}={text}")]
    return [*found, *[word for each in more for word in ("-o", each)]]


def fewer_rows(zoo: Path, model: str) -> dict[str, int]:
    """How many rows its tables have, if `zoo_rows` has made them smaller."""
    note = zoo / zoo_rows.NOTE
    known = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {"models": []}
    return {"rows": known["rows"]} if model in known["models"] else {}


def forked(work: Callable[[], int], out: str, err: str) -> int:
    """Start work in a process of its own that has imported Paddle already. Returns its number."""
    if number := os.fork():
        return number
    status = 70
    try:
        for stream, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)
        status = work()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on as its parent
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def started(module: str, arguments: Sequence[str], environ: Mapping[str, str], log: str) -> int:
    """A module of ours as a program, in a process that has imported Paddle already."""

    def side() -> int:
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["", *arguments]
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0

    return forked(side, log, log)


def ended(number: int) -> int:
    """The exit status of a process of ours."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def as_fork(command: Sequence[str], environ: Mapping[str, str], log: str) -> int:
    """In the place of `program.as_process`: sides as processes that have imported Paddle already; servers and trainers are told by variables who they are, as platforms do."""
    place = list(command).index("-m")
    module, arguments = command[place + 1], command[place + 2 :]
    if arguments[0] == "launch":
        place = list(arguments).index("-m")
        module, arguments = arguments[place + 1], arguments[place + 2 :]
    elif "--record" not in arguments:
        return ended(started(module, arguments, environ, log))
    servers, trainers = map(int, environ[SEATS].split())
    if not servers:
        return ended(started(module, arguments, environ, log))
    ports = free_ports(servers)
    common = {
        **environ,
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{port}" for port in ports),
        "PADDLE_TRAINERS_NUM": str(trainers),
        "POD_IP": "127.0.0.1",
    }
    serving = [
        started(module, arguments, {**common, "TRAINING_ROLE": "PSERVER", "PADDLE_PORT": str(port)}, log)
        for port in ports
    ]
    training = [
        started(module, arguments, {**common, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(rank)}, log)
        for rank in range(trainers)
    ]
    status = max(map(ended, training))
    if status:
        for number in serving:
            os.kill(number, signal.SIGKILL)
    return max(status, *map(ended, serving))


def free_ports(count: int) -> list[int]:
    """So many that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def own_failure(zoo: Path, kind: str, model: str) -> str:
    """What PaddleRec's own trainer fails with, without anything of umiak; nothing if it trains, or takes longer than a minute."""
    trainer = zoo / "tools" / TRAINERS[kind]

    def work() -> int:
        os.setsid()
        os.chdir(zoo / "models" / model)
        sys.path.insert(0, str(trainer.parent))
        sys.argv = [str(trainer), "-m", config_of(zoo, model).name, "-o", "runner.use_gpu=False", "runner.epochs=1"]
        runpy.run_path(str(trainer), run_name="__main__")
        return 0

    with tempfile.TemporaryDirectory(prefix="own-zoo-") as place:
        log = f"{place}/log"
        status, _ = waited(forked(work, log, log), time.monotonic() + OWN_LIMIT_S)
        text = Path(log).read_text(errors="replace") if os.path.exists(log) else ""
    return text.strip() if isinstance(status, int) and status else ""


def is_same_failure(ours: str, own: str) -> bool:
    """Whether the last error that PaddleRec's trainer names is in what umiak said."""
    errors = ERROR.findall(own)
    return bool(errors) and errors[-1].strip()[:SAME] in ours


def without_own_paths(text: str, zoo: Path) -> str:
    """Paths from the checkout, the zoo and the packages on, so that a result is the same wherever it was measured."""
    for directory in (f"{ROOT}/", f"{zoo}/"):
        text = text.replace(directory, "")
    return re.sub(r"[^\s\"']*/site-packages/", "", text)


def compare(zoo: Path, kind: str, model: str, way: str, more: list[str]) -> dict[str, Any]:
    """One line."""
    from umiak.cli import main as cli
    from umiak.train.compare import program

    def work() -> int:
        os.setsid()
        os.chdir(zoo / "models" / model)
        os.environ[SEATS] = " ".join(map(str, WAYS[way]))
        program.start = as_fork
        return cli.main(words(config_of(zoo, model).name, kind, way, more))

    began = time.monotonic()
    line: dict[str, Any] = {"kind": kind, "model": model, "way": way, "overrides": more, **fewer_rows(zoo, model)}
    with tempfile.TemporaryDirectory(prefix="compare-zoo-") as place:
        out, err = f"{place}/out", f"{place}/err"
        number = forked(work, out, err)
        status, most = waited(number, began + LIMIT_S)
        line["seconds"] = round(time.monotonic() - began, 1)
        line["megabytes"] = most >> 20
        said = Path(err).read_text(errors="replace") if os.path.exists(err) else ""
        if isinstance(status, str):
            return {**line, "verdict": status, "said": without_own_paths(said[-TAIL:], zoo)}
        if status not in (0, 4):
            code = next((each for each in ("UM-TRAIN-582", "UM-TRAIN-581") if each in said), "")
            verdict = {"UM-TRAIN-582": "plain fails", "UM-TRAIN-581": "umiak fails"}.get(code, "refused")
            if verdict == "umiak fails" and is_same_failure(said, own_failure(zoo, kind, model)):
                verdict = "plain fails"
            return {**line, "verdict": verdict, "said": without_own_paths(said[-TAIL:], zoo)}
        told = json.loads(Path(out).read_text())
    differing = [each for each in told["parameters"] if each["first_step"] is not None]
    differing.sort(key=lambda each: (each["first_step"], -(each["largest"] or 1e300)))
    kept = ("verdict", "steps", "largest", "loss", "first_step", "reasons", "remarks")
    return {
        **line,
        **{name: told[name] for name in kept},
        "parameters": len(told["parameters"]),
        "differing": differing[:5],
    }


def found(zoo: Path, kind: str, model: str, way: str, more: list[str], known: Known) -> dict[str, Any]:
    """A line; what has no data, or lacks a package, alone is not tried again with servers."""
    alone = known.get((kind, model, "alone"))
    if way != "alone" and alone is not None and any(code in alone.get("said", "") for code in HOPELESS):
        return {**alone, "way": way, "seconds": 0.0}
    return smallest(zoo, kind, model, way, more)


def smallest(zoo: Path, kind: str, model: str, way: str, more: list[str]) -> dict[str, Any]:
    """With small batches, or with the config's own where the model has their size in its code."""
    size = batch_size(config_of(zoo, model))
    if size is not None and size > MOST_SAMPLES:
        line = compare(zoo, kind, model, way, [f"runner.train_batch_size={MOST_SAMPLES}", *more])
        if "fails" not in line["verdict"]:
            return line
    return compare(zoo, kind, model, way, more)


def waited(number: int, until: float, limit: int = LIMIT_BYTES) -> tuple[int | str, int]:
    """The exit status of a session's first process, or the limit that it broke, `timeout` or `memory`; and the most bytes that all of the session took. Whatever is left of it is ended."""
    most = 0
    broken = ""
    while not broken:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            end_session(number)
            return os.waitstatus_to_exitcode(status), most
        most = max(most, memory_of(number))
        broken = "memory" if most > limit else "timeout" if time.monotonic() > until else ""
        time.sleep(0.1)
    end_session(number)
    os.waitpid(number, 0)
    return broken, most


def processes_of(session: int) -> list[int]:
    """All processes of a session, also those of other process groups."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # Behind the name of the program, which may hold anything: state, parent, group, session.
            if int((each / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found.append(int(each.name))
    return found


def memory_of(session: int) -> int:
    """Bytes of memory that its processes have for themselves: libraries and other files are not counted."""
    total = 0
    for number in processes_of(session):
        with contextlib.suppress(OSError):
            said = Path(f"/proc/{number}/status").read_text()
            total += sum(int(kb) for kb in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", said, re.MULTILINE))
    return total * 1024


def end_session(session: int) -> None:
    """At once: none of them has anything that is kept."""
    for number in processes_of(session):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def load(results: Path) -> Known:
    """What is known already."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    found = {(each["kind"], each["model"], each["way"]): each for each in map(json.loads, lines)}
    return {key: each for key, each in found.items() if each["verdict"] != UNKNOWN}


def gathered(zoo: Path, files: Sequence[Path]) -> Known:
    """What several files know, and a line for each model and way that none of them does."""
    empty = {
        (kind, model, way): {"kind": kind, "model": model, "way": way, "verdict": UNKNOWN}
        for kind in KINDS
        for model in models(zoo, kind)
        for way in WAYS
    }
    for file in files:
        empty |= load(file)
    return empty


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
    parser.add_argument("--kind", choices=[*KINDS], action="append")
    parser.add_argument("--way", choices=[*WAYS], action="append")
    parser.add_argument("--only", action="append", help="a model, as rank/dnn")
    parser.add_argument("--skip", action="append", default=[], help="a model that is left out this time")
    parser.add_argument("--again", action="store_true", help="those as well that are known")
    parser.add_argument("--part", default="1/1", help="which models: 1/2 for every second one, from the first")
    parser.add_argument("--gather", type=Path, action="append", help="compare nothing, and join these results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("-o", "--override", action="append", default=[])
    asked = parser.parse_args()
    if asked.gather:
        save(gathered(asked.zoo, asked.gather), asked.results)
        return 0
    # Before Paddle is imported, once for all: as PaddleRec's own trainers say it, and no threads that a fork would lose.
    os.environ |= {
        "FLAGS_enable_pir_api": "0",
        "GLOG_minloglevel": "2",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    import paddle  # noqa: F401

    part, parts = map(int, asked.part.split("/"))
    for kind in asked.kind or KINDS:
        for model in quickest_first(models(asked.zoo, kind)[part - 1 :: parts], kind, load(asked.results)):
            if (asked.only and model not in asked.only) or model in asked.skip:
                continue
            for way in asked.way or WAYS:
                known = load(asked.results)
                if (kind, model, way) in known and not asked.again:
                    continue
                line = found(asked.zoo, kind, model, way, asked.override, known)
                save({**load(asked.results), (kind, model, way): line}, asked.results)
                print(
                    f"{kind} {model} {way}: {line['verdict']} {line.get('largest', '')} ({line['seconds']} s)",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())

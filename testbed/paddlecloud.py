"""A stand-in for PaddleCloud: its client as an executable, its jobs as files, its nodes as processes of this machine. A program.

    cloud = PaddleCloud(directory)          # cloud.bin has `paddlecloud`, to be put on PATH
    cloud.trouble("train", "lose")          # the next submission is accepted, and its answer gets lost
    cloud.run(job_id, data=...)             # every node: before_hook.sh, the start command, end_hook.sh
    cloud.say(job_id, "success")

The client checks each argument, file and key as the real one does: what it takes was read off a published version of it and PaddleRec's
templates. As `python testbed/paddlecloud.py STATE job ...` this file is that client.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

AK, SK = "a1b2c3d4e5f60718293a4b5c6d7e8f90", "00112233445566778899aabbccddeeff"
GROUPS = ("paddle", "rec-0-yq01-k8s-cpu")
HOOKS = ("before_hook.sh", "end_hook.sh")
KEPT = "/home/work/containers_backup/"
LOG = "/root/paddlejob/workspace/log/train.log"
PLATFORM_VARIABLES = ("fs_name", "fs_ugi", "output_path", "train_data_path", "test_data_path", "thirdparty_path")


# ---- the client


def main(argv: Sequence[str]) -> int:
    """The command ``paddlecloud``; the first word is where the platform's state is."""
    state, words = Path(argv[0]), argv[1:]
    with (state / "calls.jsonl").open("a") as file:
        file.write(json.dumps({"argv": words, "cwd": os.getcwd()}) + "\n")
    args = _parser().parse_args(words)
    try:
        _sign_in(args, state)
        found: int = _ACTIONS[args.action](args, state)
    except _Wrong as wrong:
        sys.stderr.write(f"Error occurred: {wrong}\n")
        return 1
    return found


class _Wrong(Exception):
    """What the client checks before it asks the platform."""


def _parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="paddlecloud", allow_abbrev=False)
    job = root.add_subparsers(dest="service", required=True).add_parser("job", allow_abbrev=False)
    for flag in ("--server", "--port", "--ak", "--sk"):
        job.add_argument(flag)
    actions = job.add_subparsers(dest="action", required=True)
    train = actions.add_parser("train", allow_abbrev=False)
    for flag in ("--job-name", "--job-conf", "--start-cmd", "--group-name", "--job-version"):
        train.add_argument(flag, required=True)
    train.add_argument("--files", required=True, nargs="+")
    train.add_argument("--is-standalone", required=True, choices=["0", "1"])
    train.add_argument("--permission", choices=["private", "group"], default="private")
    train.add_argument("--json", action="store_true")
    for flag in ("--wall-time", "--mpi-wall-time", "--image-addr"):
        train.add_argument(flag)
    train.add_argument("--mpi-priority", choices=["low", "normal", "high", "very_high"])
    train.add_argument("--k8s-priority", choices=["low", "normal", "high", "very_high"])
    train.add_argument("--distribute-job-type", choices=["NCCL2", "PSERVER"])
    for flag in ("mpi-nodes", "k8s-trainers", "k8s-cpu-cores", "k8s-gpu-cards", "k8s-ps-num", "k8s-ps-cores"):
        train.add_argument(f"--{flag}", type=int)
    for name in ("state", "info", "kill"):
        actions.add_parser(name).add_argument("job_id")
    listed = actions.add_parser("list")
    listed.add_argument("--type", choices=["normal", "favorite", "group"], default="normal")
    listed.add_argument("--page", type=int, default=1)
    listed.add_argument("--size", type=int, default=10)
    listed.add_argument("--json", action="store_true")
    return root


def _sign_in(args: argparse.Namespace, state: Path) -> None:
    ak, sk = args.ak, args.sk
    if ak is None or sk is None:
        path = Path(os.environ["HOME"], ".paddlecli", "config")
        if not path.exists():
            raise _Wrong("the current user's token not exists, please create it using 'paddlecloud config -t'")
        if stat.S_IMODE(path.stat().st_mode) != 0o600:
            raise _Wrong(f"stand-in: others can read {path}")
        config = configparser.RawConfigParser()
        config.read(path)
        ak, sk = config["token"]["user_ak"], config["token"]["user_sk"]
    if not (ak.isalnum() and sk.isalnum()):
        raise _Wrong("the user's access key or secret key is illegal, please check it.")
    if [ak, sk] not in json.loads((state / "keys.json").read_text()):
        raise _Wrong("authentication failed")


def _train(args: argparse.Namespace, state: Path) -> int:
    trouble = _trouble(state, "train")
    if trouble == "hang before":
        _hang()
    print("Start checking your job configuration, please be patient.")
    _check_shape(args)
    variables = _check_config(args)
    _check_files(args.files)
    if args.group_name not in GROUPS:
        print(f"Oops...The job submission aborted due to error, no such group: {args.group_name}")
        return 1
    print("Congratulations! Job configuration check passed!")
    if trouble == "unreachable":
        sys.stderr.write("None\n[Errno 111] Connection refused\n")
        return 1
    if trouble == "refuse":
        print(json.dumps({"code": 4003, "message": "the quota of the group is used up", "data": None}, indent=4))
        return 0
    job_id = _keep(args, state, variables)
    if trouble == "lose":
        sys.stderr.write("None\n[Errno 104] Connection reset by peer\n")
        return 1
    if trouble == "hang":
        _hang()
    if trouble == "silent":
        return 0
    print("Congratulations! The new job is ready for training.")
    answer: dict[str, Any] = {"groupName": args.group_name, "jobId": job_id, "userId": "1-2-3-4-5"}
    if trouble == "wrapped":
        answer = {"code": 0, "message": "success", "data": answer}
    print(json.dumps(answer, indent=4))
    return 0


def _check_shape(args: argparse.Namespace) -> None:
    given = {name for name, item in vars(args).items() if item is not None}
    if not re.fullmatch(r"[\w.-]{1,64}", args.job_name):
        raise _Wrong("invalid value for '--job-name'")
    if args.job_version == "paddle-fluid-custom" and not args.image_addr:
        raise _Wrong("please set docker image address if choose paddle-fluid-custom version")
    for name in ("mpi_nodes", "k8s_trainers", "k8s_cpu_cores", "k8s_gpu_cards", "k8s_ps_num", "k8s_ps_cores"):
        if getattr(args, name) is not None and getattr(args, name) <= 0:
            raise _Wrong(f"invalid value for '--{name.replace('_', '-')}'")
    if args.mpi_nodes is not None:
        needed, barred = {"mpi_priority", "mpi_wall_time"}, {name for name in given if name.startswith("k8s_")}
        barred |= given & {"distribute_job_type", "wall_time"}
        walls = args.mpi_wall_time
    else:
        needed = {"k8s_trainers", "k8s_cpu_cores", "k8s_priority", "wall_time"}
        barred = {name for name in given if name.startswith("mpi_")}
        walls = args.wall_time
        if args.distribute_job_type == "PSERVER":
            needed, barred = needed | {"k8s_ps_num", "k8s_ps_cores"}, barred | (given & {"k8s_gpu_cards"})
        else:
            needed, barred = needed | {"k8s_gpu_cards"}, barred | (given & {"k8s_ps_num", "k8s_ps_cores"})
        is_one = args.k8s_trainers == 1 and args.distribute_job_type != "PSERVER"
        if (args.is_standalone == "1") is not is_one or (args.distribute_job_type is None) is not is_one:
            raise _Wrong("stand-in: --is-standalone and --distribute-job-type do not fit the number of trainers")
    if needed - given or barred:
        raise _Wrong(f"stand-in: missing {sorted(needed - given)}, not for this cluster {sorted(barred)}")
    if not re.fullmatch(r"\d+:\d\d:\d\d", walls or ""):
        raise _Wrong("invalid value for '--wall-time'")


def _check_config(args: argparse.Namespace) -> dict[str, str]:
    path = Path(args.job_conf)
    if not path.is_file():
        raise _Wrong(f"the config file {path} not exists, please check it.")
    if stat.S_IMODE(path.stat().st_mode) != 0o600:
        raise _Wrong(f"stand-in: others can read {path}")
    found = read_config(path.read_text())
    wanted = ["fs_name", "fs_ugi", *(["train_data_path", "storage_type"] if args.mpi_nodes else ["mount_afs"])]
    missing = [name for name in wanted if not found.get(name)]
    if missing:
        raise _Wrong(f"stand-in: config.ini has no {missing}")
    return found


def _check_files(files: Sequence[str]) -> None:
    for name in files:
        if not os.path.isfile(name):
            raise _Wrong(f"the file '{name}' not exists, please check it")
        if name.endswith(".sh") and os.path.basename(name) not in HOOKS:
            raise _Wrong(f"the shell file '{name}' should be named in [before_hook.sh, end_hook.sh]")
    names = [os.path.basename(name) for name in files]
    if len(set(names)) < len(names) or not {*HOOKS} <= {*names}:
        raise _Wrong("stand-in: two files of one name, or no hooks")


def _keep(args: argparse.Namespace, state: Path, variables: Mapping[str, str]) -> str:
    number = len(list((state / "jobs").iterdir())) + 1
    job_id = f"job-{number:016x}"
    made = state / "incoming" / f"{os.getpid()}-{job_id}"
    (made / "files").mkdir(parents=True)
    for name in args.files:
        shutil.copy(name, made / "files")
    kept = {name: item for name, item in vars(args).items() if item is not None}
    kept |= {"variables": dict(variables), "order": number, "nodes": []}
    (made / "job.json").write_text(json.dumps(kept))
    (made / "state").write_text("submit")
    made.rename(state / "jobs" / job_id)  # it is there as a whole, or not at all
    return job_id


def _state(args: argparse.Namespace, state: Path) -> int:
    if _trouble(state, "state") == "fail":
        raise _Wrong("[Errno 111] Connection refused")
    _known(args, state)
    word = (state / "jobs" / args.job_id / "state").read_text()
    _answer({"jobId": args.job_id, "jobStatus": word, "usedTime": "0 hour 1 min"})
    return 0


def _info(args: argparse.Namespace, state: Path) -> int:
    kept = _known(args, state)
    lists: dict[str, list[dict[str, str]]] = {"trainerList": [], "pserverList": []}
    for name, url in kept["nodes"]:
        lists["pserverList" if "pserver" in name else "trainerList"].append({"resourceName": name, "logUrl": url})
    _answer({"jobId": args.job_id, "jobName": kept["job_name"], **lists})
    return 0


def _kill(args: argparse.Namespace, state: Path) -> int:
    _known(args, state)
    (state / "jobs" / args.job_id / "state").write_text("killed")
    _answer({"jobIds": [args.job_id]})
    return 0


def _list(args: argparse.Namespace, state: Path) -> int:
    if _trouble(state, "list") == "fail":
        raise _Wrong("[Errno 111] Connection refused")
    rows = [json.loads(path.read_text()) | {"id": path.parent.name} for path in (state / "jobs").glob("*/job.json")]
    rows.sort(key=lambda row: row["order"], reverse=True)
    rows = rows[(args.page - 1) * args.size : args.page * args.size]
    _answer({"jobs": [{"jobId": row["id"], "jobName": row["job_name"]} for row in rows]})
    return 0


_ACTIONS = {"train": _train, "state": _state, "info": _info, "kill": _kill, "list": _list}


def _known(args: argparse.Namespace, state: Path) -> dict[str, Any]:
    path = state / "jobs" / args.job_id / "job.json"
    if not path.exists():
        raise _Wrong(f"no such job: {args.job_id}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _answer(data: Mapping[str, Any]) -> None:
    print(json.dumps({"code": 0, "message": "success", "data": data}, indent=4))


def _trouble(state: Path, action: str) -> str:
    path = state / "troubles.json"
    waiting: list[list[str]] = json.loads(path.read_text())
    for each in waiting:
        if each[0] == action:
            waiting.remove(each)
            path.write_text(json.dumps(waiting))
            return each[1]
    return ""


def _hang() -> NoReturn:
    sys.stdout.flush()
    while True:
        time.sleep(3600)


# ---- the platform, for tests


def read_config(text: str) -> dict[str, str]:
    """What a config.ini says, as a shell would take it."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            (word,) = shlex.split(line)
            name, _, value = word.partition("=")
            found[name] = value
    return found


class PaddleCloud:
    """The platform: what was submitted to it, and its nodes."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "paddlecloud"
        self.bin = directory / "bin"
        for path in (self.state / "jobs", self.bin):
            path.mkdir(parents=True)
        (self.state / "troubles.json").write_text("[]")
        (self.state / "keys.json").write_text(json.dumps([[AK, SK]]))
        (self.state / "calls.jsonl").touch()
        client = self.bin / "paddlecloud"
        words = shlex.join([sys.executable, os.path.abspath(__file__), str(self.state)])
        client.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        client.chmod(0o755)

    def trouble(self, action: str, kind: str) -> None:
        """The next call of this action goes wrong."""
        path = self.state / "troubles.json"
        path.write_text(json.dumps([*json.loads(path.read_text()), [action, kind]]))

    def calls(self, action: str | None = None) -> list[list[str]]:
        """The arguments of each call so far."""
        lines = (self.state / "calls.jsonl").read_text().splitlines()
        found: list[list[str]] = [json.loads(line)["argv"] for line in lines]
        return [words for words in found if action is None or action in words]

    def jobs(self) -> list[str]:
        return sorted(path.name for path in (self.state / "jobs").iterdir())

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "jobs" / job_id / "job.json").read_text())
        return found

    def uploaded(self, job_id: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.state / "jobs" / job_id / "files").iterdir()}

    def say(self, job_id: str, word: str) -> None:
        """The state of a job from now on."""
        (self.state / "jobs" / job_id / "state").write_text(word)

    def environments(self, job_id: str) -> list[tuple[str, dict[str, str]]]:
        """Every process that the platform starts for a job: the name of its node, and its variables."""
        from testbed.ports import free_port, free_ports, own_addresses  # as the command, this file stands alone

        kept = self.job(job_id)
        given = {name: text for name, text in kept["variables"].items() if name not in PLATFORM_VARIABLES}
        trainers = kept.get("mpi_nodes") or kept["k8s_trainers"]
        servers = kept.get("mpi_nodes") or kept.get("k8s_ps_num", 0)
        if not servers:
            hosts = own_addresses(trainers)
            shared = {**given, "PADDLE_TRAINERS": ",".join(hosts), "PADDLE_PORT": str(free_port())}
            shared["TRAINER_GPU_CARD_COUNT"] = str(kept["k8s_gpu_cards"])
            return [
                (f"{job_id}-trainer-{rank}", {**shared, "POD_IP": host, "PADDLE_TRAINER_ID": str(rank)})
                for rank, host in enumerate(hosts)
            ]
        ports = free_ports(servers)
        (host,) = own_addresses(1)  # so that the launchers' default port is this job's alone
        shared = {
            **given,
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"{host}:{port}" for port in ports),
            "PADDLE_TRAINERS_NUM": str(trainers),
            "POD_IP": host,
        }
        found = [
            (f"{job_id}-pserver-{number}", {**shared, "TRAINING_ROLE": "PSERVER", "PADDLE_PORT": str(port)})
            for number, port in enumerate(ports)
        ]
        for rank in range(trainers):
            own = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(rank)}
            found.append((f"{job_id}-trainer-{rank}", {**shared, **own}))
        return found

    @contextlib.contextmanager
    def run(self, job_id: str, data: Sequence[Path], environ: Mapping[str, str]) -> Iterator[JobOnNodes]:
        """The job's nodes: each has the uploaded files, and ``./train_data`` (mpi: a part of its own) or ``./afs``."""
        running = JobOnNodes(self, job_id, data, environ)
        try:
            yield running
        finally:
            running.close()


class JobOnNodes:
    """A job on its nodes, and the server that hands out their logs."""

    def __init__(self, cloud: PaddleCloud, job_id: str, data: Sequence[Path], environ: Mapping[str, str]) -> None:
        self.directory = cloud.state / "jobs" / job_id
        self._cloud, self._job_id = cloud, job_id
        kept = cloud.job(job_id)
        is_mpi = "mpi_nodes" in kept
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.directory))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{self._server.server_address[1]}/tree/page/"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name, own in cloud.environments(job_id):
            number = int(name.rpartition("-")[2])
            node = self.directory / (f"node-{number}" if is_mpi else name)
            if not node.exists():
                shutil.copytree(self.directory / "files", node)
                target = node / ("train_data" if is_mpi else "afs")
                target.mkdir()
                for path in data[number :: kept["mpi_nodes"]] if is_mpi else data:
                    shutil.copy(path, target)
            script = f"sh before_hook.sh && {{ {kept['start_cmd']}; }}; status=$?; sh end_hook.sh; exit $status"
            with (self.directory / f"{name}.log").open("wb") as log:
                self.processes[name] = subprocess.Popen(
                    ["sh", "-c", script],
                    cwd=node,
                    env={**environ, **own},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        rows = [[name, f"{base}{name}/log"] for name in self.processes]
        (self.directory / "job.json").write_text(json.dumps({**kept, "nodes": rows}))
        cloud.say(job_id, "running")

    def wait(self, within_s: float) -> list[int]:
        """The exit status of each process; the job's state follows."""
        codes = [each.wait(within_s) for each in self.processes.values()]
        self._cloud.say(self._job_id, "fail" if any(codes) else "success")
        return codes

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def close(self) -> None:
        for each in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, 9)
            each.wait()
        self._server.shutdown()
        self._server.server_close()


def _handler(directory: Path) -> type[BaseHTTPRequestHandler]:
    class Files(BaseHTTPRequestHandler):
        """Hands out the output of each node's container."""

        def do_GET(self) -> None:
            """One file."""
            asked = urlsplit(self.path)
            path = parse_qs(asked.query).get("path", [""])[0]
            name = path.removeprefix(KEPT).removesuffix(LOG)
            file = directory / f"{name}.log"
            is_known = asked.path == "/filetree" and path == f"{KEPT}{name}{LOG}" and "/" not in name and file.exists()
            data = file.read_bytes() if is_known else b"no such file"
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Nothing is said."""

    return Files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

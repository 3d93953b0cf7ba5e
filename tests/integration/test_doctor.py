"""`umiak doctor` finds defects that are really there: taken ports, a small /dev/shm, lowered limits, a dead etcd, broken frameworks."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import disks, etcd
from testbed.ports import free_port
from testbed.pytest_support import NetworkFactory, require
from tests.support import PATIENCE_S, eventually, is_running

DOCTOR = (sys.executable, "-m", "umiak", "doctor")
KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")


def environment(**more: str) -> dict[str, str]:
    return {**{name: os.environ[name] for name in KEPT if name in os.environ}, **more}


class Doctor:
    """What it found."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        assert done.returncode in (0, 1), done.stderr
        self.text = done.stdout + done.stderr
        self.data: dict[str, Any] = json.loads(done.stdout)
        assert self.data["healthy"] is (done.returncode == 0)
        self.checks = {each["name"]: each for each in self.data["checks"]}

    def verdict(self, name: str) -> str:
        verdict: str = self.checks[name]["verdict"]
        return verdict

    def finding(self, code: str) -> dict[str, str]:
        """The one finding with this code."""
        findings = [each for check in self.data["checks"] for each in check["findings"]]
        found = [each for each in findings if each["code"] == f"UM-DOCTOR-{code}"]
        assert len(found) == 1, self.text
        assert found[0]["hint"]
        return found[0]


def doctor(flags: str, *, cwd: Path | None = None, before: str = "", **environ: str) -> Doctor:
    """Run it, behind some commands of a shell if there are any."""
    command: list[str] = [*DOCTOR, "--json", *flags.split()]
    if before:
        command = ["bash", "-c", f"{before} && exec {shlex.join(command)}"]
    if "mount" in before:
        require(disks.unavailable())
        command = ["unshare", "--mount", *command]  # what is mounted is seen by nobody else
    return Doctor(
        subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=cwd, env=environment(**environ))
    )


def package(directory: Path, name: str, code: str) -> str:
    """A package on PYTHONPATH; the result is what that is."""
    place = directory / "path" / name
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(code)
    return str(directory / "path")


# ---- a healthy machine


@pytest.mark.paddle
def test_a_healthy_machine_is_all_green_and_no_framework_is_imported_here(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from umiak.cli.main import main\n"
        "status = main(['doctor', '--json', '--timeout', '250'])\n"
        "assert not {'paddle', 'torch', 'numpy', 'umiak_native', 'google.protobuf'} & set(sys.modules)\n"
        "sys.exit(status)\n"
    )
    clean = environment(HOME=str(tmp_path), PATH=f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=550, env=clean)
    found = Doctor(done)
    assert {each["verdict"] for each in found.data["checks"]} <= {"ok", "skipped"}, found.text
    for name in ("install", "paddle", "protobuf", "paddle_collective", "ports", "address", "limits"):
        assert found.verdict(name) == "ok", found.text
    assert found.checks["paddle_collective"]["facts"]["sums"] == [3.0, 3.0]
    assert found.data["conclusion"].startswith("no problems: ")


def test_the_table_for_people() -> None:
    done = subprocess.run(
        [*DOCTOR, "--only", "limits,etcd,proxy"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(http_proxy="http://p:1"),
    )
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("warning  proxy   http_proxy would catch requests to 127.0.0.1, localhost")
    assert lines[0].endswith("[UM-DOCTOR-110]")
    assert lines[1] == "                 hint: export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost"
    assert lines[2].startswith("ok       limits  open files ")
    assert lines[3:] == ["skipped  etcd    no etcd was named", "", "no problems, 1 warning: proxy; 1 ok, 1 skipped"]
    assert done.stderr == ""


# ---- frameworks, in processes of their own


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("raise ImportError('libphi.so: cannot open shared object file')", "030", "libphi.so"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "031", "SIGILL"),
        ("import os; os._exit(7)", "030", "status 7"),
    ],
)
def test_a_framework_that_cannot_be_imported(tmp_path: Path, code: str, number: str, text: str) -> None:
    found = doctor("--only paddle,paddle_collective", PYTHONPATH=package(tmp_path, "paddle", code))
    assert text in found.finding(number)["reason"]
    assert found.verdict("paddle") == "problem"
    assert found.verdict("paddle_collective") == "skipped"


def test_a_framework_that_hangs_is_ended(tmp_path: Path) -> None:
    code = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)"
    found = doctor("--only paddle --timeout 3", PYTHONPATH=package(tmp_path, "paddle", code))
    assert "not done after 1.5 s" in found.finding("032")["reason"]
    pid = (tmp_path / "pid").read_text()
    assert pid == "" or not is_running(int(pid))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_doctor_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    code = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)"
    path = package(tmp_path, "paddle", code)
    with subprocess.Popen([*DOCTOR, "--only", "paddle"], env=environment(PYTHONPATH=path)) as running:
        pid = eventually(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
        running.send_signal(number)
        assert running.wait(PATIENCE_S) == 130
    eventually(lambda: not is_running(int(pid)))


def test_a_directory_that_hides_a_framework(tmp_path: Path) -> None:
    (tmp_path / "paddle").mkdir()
    (tmp_path / "paddle" / "__init__.py").write_text("")
    assert "working directory" in doctor("--only paddle", cwd=tmp_path).finding("033")["reason"]


FAKE = """
__version__ = "9.9"
import importlib, sys, types
is_compiled_with_rocm = is_compiled_with_cuda = is_compiled_with_xpu = lambda: False
device = types.SimpleNamespace(get_all_custom_device_type=lambda: [])
set_device = print
class to_tensor(list):
    numpy = lambda self: self
"""
TOGETHER = """
import os
def init_parallel_env(): {start}
get_rank = lambda: int(os.environ["PADDLE_TRAINER_ID"])
get_world_size = lambda: int(os.environ["PADDLE_TRAINERS_NUM"])
all_reduce = lambda given: None
"""


@pytest.mark.parametrize(
    ("start", "number", "text"),
    [
        ("raise RuntimeError('connectFullMesh failed')", "050", "connectFullMesh failed"),
        ("pass", "051", "gave 1, 2 instead of 3"),
    ],
)
def test_a_collective_that_fails_or_is_wrong(tmp_path: Path, start: str, number: str, text: str) -> None:
    path = package(tmp_path, "paddle", FAKE)
    (Path(path) / "paddle" / "distributed.py").write_text(TOGETHER.format(start=start))
    found = doctor("--only paddle_collective", PYTHONPATH=path)
    assert found.verdict("paddle") == "ok"
    assert text in found.finding(number)["reason"]


def test_another_protobuf_on_the_path(tmp_path: Path) -> None:
    path = package(tmp_path, "google/protobuf", "__version__ = '2.6.1'")
    (Path(path) / "google" / "__init__.py").write_text("")
    internal = Path(path) / "google" / "protobuf" / "internal"
    internal.mkdir()
    (internal / "__init__.py").write_text("")
    (internal / "api_implementation.py").write_text("Type = lambda: 'python'")
    (internal.parent / "descriptor_pb2.py").write_text("")
    found = doctor("--only protobuf", PYTHONPATH=path)
    assert "protobuf 2.6.1, and Paddle 3.3.1 wants >=3.20.2" in found.finding("040")["reason"]
    assert "2.6.1 is imported from" in found.finding("042")["reason"]


# ---- umiak itself, and room


def test_other_umiaks(tmp_path: Path) -> None:
    other = tmp_path / "bin" / "umiak"
    other.parent.mkdir()
    other.write_text("#!/usr/bin/python3\n")
    other.chmod(0o755)
    path = f"{other.parent}:{os.environ['PATH']}"
    found = doctor("--only install", PYTHONPATH=package(tmp_path, "x", ""), PATH=path)
    assert str(other) in found.finding("013")["reason"]
    package(tmp_path, "umiak", "")
    code = "import umiak, sys; sys.path.append(sys.argv.pop(1)); from umiak.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, str(tmp_path / "path"), "doctor", "--json", "--only", "install"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment())
    assert str(tmp_path / "path" / "umiak") in Doctor(done).finding("012")["reason"]


def test_a_full_disk(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=1m none {tmp_path}"
    found = doctor(f"--only disk --log_dir {tmp_path}/log", before=mount)
    assert f"logs: 1.0 MiB free in {tmp_path}" in found.finding("021")["reason"]
    assert found.verdict("disk") == "problem"


def test_a_small_shared_memory() -> None:
    for megabytes, verdict in ((64, "problem"), (256, "warning")):
        mount = f"mount -t tmpfs -o size={megabytes}m none /dev/shm"
        found = doctor("--only shm", before=mount)
        assert f"{megabytes} MiB at /dev/shm" in found.finding("121")["reason"]
        assert found.verdict("shm") == verdict


def test_lowered_limits() -> None:
    found = doctor("--only limits", before="ulimit -u 200 -n 200")
    assert "200 open files are allowed, 1024 are wanted" in found.finding("130")["reason"]
    assert "200 processes and threads" in found.finding("132")["reason"]
    assert found.verdict("limits") == "problem"


# ---- devices and network


def test_devices_that_are_not_there(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed: no driver'; exit 9\n")
    tool.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    found = doctor("--only devices --devices 0", CUDA_VISIBLE_DEVICES="7", FLAGS_selected_gpus="1", PATH=path)
    assert "names devices that are not there: 7" in found.finding("061")["reason"]
    assert "visible are 7 (CUDA_VISIBLE_DEVICES)" in found.finding("064")["reason"]
    assert found.finding("063")["hint"].startswith("`unset FLAGS_selected_gpus`")
    assert found.finding("065")["reason"] == "nvidia-smi fails: NVIDIA-SMI has failed: no driver"


def test_a_taken_port_and_who_has_it() -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        found = doctor(f"--only ports --ips 127.0.0.1 --start_port {port} --nproc_per_node 2")
        reason = found.finding("070")["reason"]
        assert reason.startswith(f"port {port + 1} (worker 1) is in use by ")
        assert f"({os.getpid()}): Address already in use" in reason
    assert doctor(f"--only ports --master 127.0.0.1:{port + 1} --nnodes 2").verdict("ports") == "ok"


def test_proxies_are_found_and_their_passwords_are_not_shown() -> None:
    flags = "--only proxy --ips 10.1.2.3,10.1.2.4"
    found = doctor(flags, HTTP_PROXY="http://me:hunter2@proxy:3128", no_proxy="localhost,127.0.0.1,10.1.2.3")
    assert "nodes: 10.1.2.4" in found.finding("111")["reason"]
    assert "hunter2" not in found.text
    assert "***@proxy:3128" in found.text


@pytest.mark.netns
def test_names_and_addresses_on_hosts(network: NetworkFactory) -> None:
    host = network(2).hosts[0]

    def ask(flags: str, **environ: str) -> Doctor:
        command = ["env", *(f"{name}={text}" for name, text in environ.items()), *DOCTOR, "--json", *flags.split()]
        return Doctor(host.run(command, timeout=PATIENCE_S, check=False))

    found = ask("--only address,dns --ips node0,node1,nobody,192.0.2.7", NCCL_SOCKET_IFNAME="ib0")
    own_name = found.finding("082")["reason"]
    assert "own name node0 means 127.0.1.1 (/etc/hosts:" in own_name
    assert "there is no interface ib0" in found.finding("084")["reason"]
    assert found.finding("090")["reason"].startswith("unknown host: nobody")
    assert found.finding("091")["reason"].startswith("node0 means 127.0.1.1 here")
    assert found.finding("093")["reason"] == "no route to 192.0.2.7"
    found = ask("--only address --master 10.88.0.2:7000 --nnodes 2")
    assert found.checks["address"]["facts"]["announced"] == "10.88.0.1"
    assert found.checks["address"]["facts"]["answers"] is True
    assert "10.9.9.9 is no address of this machine" in ask("--only address --host 10.9.9.9").finding("083")["reason"]


# ---- etcd


@pytest.mark.etcd
def test_etcd_alive_in_use_forbidden_and_dead(etcd_server: etcd.Server) -> None:
    flags = f"--only cluster,clock --nnodes 2:4 --job_id ctr --master etcd://{etcd_server.endpoint}"
    found = doctor(flags)
    assert {name: found.verdict(name) for name in ("etcd", "elastic", "clock")} == dict.fromkeys(
        ("etcd", "elastic", "clock"), "ok"
    ), found.text
    assert found.checks["etcd"]["facts"]["wrote"] is True
    assert found.checks["clock"]["facts"]["others"][0]["source"].startswith("etcd at ")
    assert etcdctl(etcd_server, "get", "--prefix", "/", "--keys-only").strip() == "", "nothing is left there"

    etcdctl(etcd_server, "put", "/umiak/ctr/master", '{"host": "10.0.0.1", "port": 7000}')
    assert "led by 10.0.0.1:7000" in doctor(flags).finding("152")["reason"]

    etcdctl(etcd_server, "user", "add", "root:secret")
    etcdctl(etcd_server, "user", "grant-role", "root", "root")
    etcdctl(etcd_server, "auth", "enable")
    assert "user name is empty" in doctor(flags).finding("144")["reason"]

    etcd_server.stop()
    found = doctor(flags.replace("cluster,clock", "etcd,clock"))
    assert "Connection refused" in found.finding("140")["reason"]
    assert found.verdict("clock") == "skipped"


@pytest.mark.etcd
def test_an_etcd_that_hangs(etcd_server: etcd.Server) -> None:
    etcd_server.pause()
    try:
        found = doctor(f"--only etcd --master etcd://{etcd_server.endpoint}")
        assert "timed out" in found.finding("140")["reason"]
    finally:
        etcd_server.resume()


def etcdctl(server: etcd.Server, *words: str) -> str:
    command = [etcd.program("etcdctl") or "etcdctl", "--endpoints", server.endpoint, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={"ETCDCTL_API": "3"}).stdout


class _Yesterday(http.server.BaseHTTPRequestHandler):
    """Answers as etcd on a machine whose clock is wrong."""

    def do_GET(self) -> None:
        self.send_response_only(200)
        self.send_header("Date", "Mon, 06 May 2019 10:00:00 GMT")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def answering() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Yesterday) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_clocks_that_differ() -> None:
    with answering() as port:
        found = doctor(f"--only clock --master etcd://127.0.0.1:{port}")
    assert "ahead of that of etcd" in found.finding("100")["reason"]
    assert found.verdict("clock") == "problem"


# ---- places

BACKEND = """
from umiak.core.problem import Problem
from umiak.submit.backend import PlaceCheck

class Backend:
    def examine(self):
        yield PlaceCheck(text="gate: open")
        yield PlaceCheck(text="", problem=Problem(code="CLOUD-1", what="no quota left", hint="ask for more"), is_warning=True)

def make(place, context):
    return Backend()
"""


def test_a_place_through_its_backend(tmp_path: Path) -> None:
    metadata = tmp_path / "cloud-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cloud\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[umiak.backends]\ncloud = cloud_backend:make\n")
    (tmp_path / "cloud_backend.py").write_text(BACKEND)
    (tmp_path / "umiak.toml").write_text('[place.sky]\nbackend = "cloud"\n')
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    found = doctor("--only place --on sky", cwd=tmp_path, **home)
    warned, fine = found.checks["place"]["findings"]
    assert (warned["verdict"], warned["code"], warned["reason"]) == ("warning", "CLOUD-1", "no quota left")
    assert (fine["verdict"], fine["reason"]) == ("ok", "gate: open")
    assert doctor("--only place --on local", cwd=tmp_path, **home).verdict("place") == "ok"
    unknown = doctor("--only place --on skye", cwd=tmp_path, **home).checks["place"]["findings"]
    assert [each["code"] for each in unknown] == ["UM-SUBMIT-005"]


def test_a_kubeconfig_that_is_missing_or_open_to_others(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("")
    config.chmod(0o644)
    found = doctor("--only kubernetes", KUBECONFIG=f"{config}:{tmp_path / 'none'}")
    assert str(tmp_path / "none") in found.finding("160")["reason"]
    assert found.finding("161")["hint"] == f"chmod 600 {config}"

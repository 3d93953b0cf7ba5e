"""Tries frameworks in processes of their own. An adapter.

Each is imported as a script of the working directory would import it,
so that a directory called ``paddle`` there is noticed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib import metadata

from umiak.adapters import devices as node_devices
from umiak.adapters import own_modules
from umiak.adapters.version import FRAMEWORKS, version_of
from umiak.core.devices import VISIBILITY
from umiak.core.shown import one_line
from umiak.core.value import replace
from umiak.doctor.facts import CollectiveFacts, FrameworkFacts, ProtobufFacts
from umiak.doctor.gathering import trial_process
from umiak.doctor.gathering.trial_process import LONGEST_LINE, answer_of
from umiak.doctor.verdicts import DoctorVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.doctor.request import DoctorRequest
    from umiak.doctor.verdicts import CheckReport

WORKERS = 2
SPARE_S = 5.0
"""Of a time limit: for ending what was started, so that it is told what was tried, and not only that time is up."""
# Variables that would make a launcher part of another job, or a worker another worker.
_OF_JOBS = ("PADDLE_", "UMIAK_", "PET_", "FLAGS_selected_")


def paddle(request: DoctorRequest, limit_s: float) -> FrameworkFacts:
    """PaddlePaddle."""
    return _framework("paddle", request, limit_s)


def torch(request: DoctorRequest, limit_s: float) -> FrameworkFacts:
    """PyTorch."""
    return _framework("torch", request, limit_s)


def protobuf(request: DoctorRequest, limit_s: float) -> ProtobufFacts:
    """What is imported, what is installed, and what Paddle wants."""
    paddle_distribution = _distribution("paddle")
    installed = version_of("protobuf")
    copies = _copies(os.path.join("google", "protobuf"), request.directory)
    answer: Any = None
    if installed or copies:
        ran = _import("protobuf", request, _inside(limit_s))
        answer = answer_of(ran.out) or {"error": f"Python ended with status {ran.facts.status}"}
    answer = answer or {}
    return ProtobufFacts(
        version=installed,
        imported=str(answer.get("version", "")),
        error=str(answer.get("error", "")),
        file=str(answer.get("file", "")),
        copies=copies,
        implementation=str(answer.get("implementation", "")),
        paddle=version_of(paddle_distribution) if paddle_distribution else "",
        required=_required(paddle_distribution) if paddle_distribution else "",
    )


def paddle_collective(request: DoctorRequest, limit_s: float, imported: CheckReport | None) -> CollectiveFacts:
    """With Paddle."""
    return _collective("paddle", request, limit_s, imported)


def torch_collective(request: DoctorRequest, limit_s: float, imported: CheckReport | None) -> CollectiveFacts:
    """With PyTorch."""
    return _collective("torch", request, limit_s, imported)


def _framework(name: str, request: DoctorRequest, limit_s: float) -> FrameworkFacts:
    distribution = _distribution(name)
    installed = version_of(distribution) if distribution else ""
    copies = _copies(name, request.directory)
    if not installed and not copies:
        return FrameworkFacts(name=name)
    ran = _import(name, request, _inside(limit_s))
    answer = answer_of(ran.out) or {}
    devices = node_devices.find(request.environ)
    lines = ran.facts.last_lines
    if answer.get("error"):
        lines = (str(answer["error"]),)
    file = str(answer.get("file", ""))
    return FrameworkFacts(
        name=name,
        installed=installed,
        found=True,
        trial=replace(ran.facts, last_lines=lines),
        version="" if answer.get("error") else str(answer.get("version", "")),
        file=file,
        build=str(answer.get("build", "")),
        device_count=int(answer.get("devices", 0)),
        node_kind=devices.kind.value if devices else "",
        node_devices=len(devices.ids) if devices else 0,
        in_directory=copies[:1] == (os.path.join(os.path.realpath(request.directory), name),)
        and not _is_site(copies[0]),
    )


def _collective(name: str, request: DoctorRequest, limit_s: float, imported: CheckReport | None) -> CollectiveFacts:
    facts = (imported.facts if imported else None) or {}
    is_ready = imported is not None and imported.verdict in (DoctorVerdict.OK, DoctorVerdict.WARNING)
    devices = node_devices.find(request.environ)
    ids = (request.devices or devices.ids) if devices else ()
    with_nccl = len(ids) >= WORKERS and facts.get("device_count", 0) >= WORKERS and facts.get("build", "")[:4] == "cuda"
    backend = "nccl" if with_nccl else "gloo"
    if not is_ready:
        return CollectiveFacts(framework=name, backend=backend)
    environ = {key: text for key, text in request.environ.items() if not key.startswith(_OF_JOBS)}
    if not with_nccl:
        environ |= {variable: "" for names in VISIBILITY.values() for variable in names}
    environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="umiak-doctor-") as work:
        result = os.path.join(work, "sum")
        flags = ["--nnodes", "1", "--nproc_per_node", str(WORKERS), "--topology", "none", "--max_restart", "0"]
        flags += ["--log_dir", os.path.join(work, "log"), "--tee", "none", "--job_id", "doctor", "--failure_grace", "1"]
        flags += ["--devices", ",".join(ids[:WORKERS])] if with_nccl else []
        program = ["-m", "umiak.doctor.trials.collective", name, backend, result, f"{limit_s:g}"]
        ran = trial_process.run(
            [*own_modules.command("umiak"), "launch", *flags, *program],
            environ=environ,
            directory=request.directory,
            limit_s=_inside(limit_s),
        )
        answers = [_read_json(f"{result}.{rank}") for rank in range(WORKERS)]
        # The first one that fails ends the others, which may have said nothing yet.
        logs = (_last_lines(os.path.join(work, "log", f"workerlog.{rank}")) for rank in range(WORKERS))
        lines_out = next((lines for lines in logs if lines), None) or list(ran.facts.last_lines)
    return CollectiveFacts(
        framework=name,
        backend=backend,
        ready=True,
        trial=ran.facts,
        sums=tuple(float(each["sum"]) for each in answers if each),
        expected=next((float(each["expected"]) for each in answers if each), 0.0),
        error=one_line(lines_out[-1], LONGEST_LINE) if lines_out and ran.facts.status else "",
        node_devices=len(devices.ids) if devices else 0,
    )


def _import(name: str, request: DoctorRequest, limit_s: float) -> trial_process.Ran:
    command = own_modules.command("umiak.doctor.trials.importing")
    return trial_process.run(
        [*command, name, f"{limit_s + 1:g}"], environ=request.environ, directory=request.directory, limit_s=limit_s
    )


def _inside(limit_s: float) -> float:
    return max(limit_s / 2, limit_s - SPARE_S)


def _distribution(name: str) -> str:
    return next((each for each in FRAMEWORKS[name] if version_of(each)), "")


def _required(distribution: str) -> str:
    """What a distribution wants of protobuf: ``>=3.20.2,<7``."""
    for line in metadata.requires(distribution) or ():
        wanted = line.partition(";")[0].strip()
        rest = wanted[len("protobuf") :].strip().strip("()").replace(" ", "")
        if wanted.lower().startswith("protobuf") and rest[:1] in tuple("<>=!~"):
            return rest
    return ""


def _copies(name: str, directory: str) -> tuple[str, ...]:
    """Packages or modules of this name, in the order in which Python looks for them."""
    paths = [directory, *(path for path in sys.path if path)]
    copies = [os.path.join(os.path.realpath(path), name) for path in paths]
    there = [
        each for each in copies if os.path.isfile(os.path.join(each, "__init__.py")) or os.path.isfile(f"{each}.py")
    ]
    return tuple(dict.fromkeys(there))


def _is_site(path: str) -> bool:
    return os.path.basename(os.path.dirname(path)) in ("site-packages", "dist-packages")


def _read_json(path: str) -> JsonObject | None:
    try:
        with open(path, encoding="utf-8") as file:
            data: JsonObject = json.load(file)
            return data
    except (OSError, ValueError):
        return None


def _last_lines(path: str) -> list[str]:
    """Of a worker's log; nothing if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if line.strip()][-2:]
    except OSError:
        return []

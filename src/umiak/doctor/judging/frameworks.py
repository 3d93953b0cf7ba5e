"""What follows from trials of frameworks. A decider."""

from __future__ import annotations

from umiak.doctor.judging.words import release, satisfies, some
from umiak.doctor.verdicts import ok, problem, skipped, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.facts import CollectiveFacts, FrameworkFacts, ProtobufFacts
    from umiak.doctor.request import DoctorRequest
    from umiak.doctor.verdicts import DoctorFinding

TITLES = {"paddle": "PaddlePaddle", "torch": "PyTorch"}
PACKAGES = {"paddle": "paddlepaddle", "torch": "torch"}
SIGNALS = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    14: "SIGALRM",
    15: "SIGTERM",
}
_ILLEGAL, _KILLED = 4, 9
OLD_PADDLE, NEW_PROTOBUF = (2, 5), (4,)
"""Generated code in older Paddles does not work with newer protobufs, whatever their metadata say."""


def paddle(facts: FrameworkFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """PaddlePaddle."""
    return _framework(facts)


def torch(facts: FrameworkFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """PyTorch."""
    return _framework(facts)


def _framework(facts: FrameworkFacts) -> list[DoctorFinding]:
    name, title = facts.name, TITLES[facts.name]
    trial = facts.trial
    if not facts.found or trial is None:
        return [skipped(f"{title} is not installed", f"python -m pip install {PACKAGES[name]}")]
    if facts.in_directory:
        reason = f"`import {name}` takes {name} of the working directory, not the installed {title}"
        return [problem("UM-DOCTOR-033", reason, f"rename it, or start the job in another directory: `ls -d {name}*`")]
    tried = f"python -c 'import {name}'"
    if trial.status is None:
        reason = f"`import {name}` is not done after {trial.limit_s:g} s"
        return [
            problem(
                "UM-DOCTOR-032", reason, f"see where it hangs: `python -X faulthandler -c 'import {name}'` and Ctrl-\\"
            )
        ]
    if trial.status < 0:
        return [
            problem(
                "UM-DOCTOR-031",
                f"`import {name}` ends Python with {_signal(-trial.status)}",
                _crash_hint(-trial.status, tried),
            )
        ]
    if not facts.version:
        why = trial.last_lines[-1] if trial.last_lines else f"it ended with status {trial.status}"
        return [
            problem(
                "UM-DOCTOR-030", f"`import {name}` fails: {why}", f"install {title} again; `{tried}` shows all of it"
            )
        ]
    findings = []
    if facts.node_devices and facts.build == "cpu":
        reason = (
            f"{title} {facts.version} is built for the CPU, and this node shows {facts.node_devices} {facts.node_kind}"
        )
        findings.append(
            warning("UM-DOCTOR-034", reason, f"install the build for {facts.node_kind}, if the devices are to be used")
        )
    elif facts.node_devices and facts.device_count < facts.node_devices:
        reason = (
            f"{title} counts {facts.device_count} devices, and this node shows {facts.node_devices} {facts.node_kind}"
        )
        hint = (
            "compare the driver's CUDA version (`nvidia-smi`) with the build's; in a container start it with --gpus all"
        )
        findings.append(problem("UM-DOCTOR-035", reason, hint))
    on = f"{facts.build}, {facts.device_count} devices" if facts.device_count else facts.build
    return findings or [ok(f"{title} {facts.version} ({on}), imported in {trial.took_s:.1f} s")]


def _signal(number: int) -> str:
    return SIGNALS.get(number, f"signal {number}")


def _crash_hint(number: int, tried: str) -> str:
    if number == _ILLEGAL:
        return "this CPU lacks instructions of the build, often AVX: `grep -o -m1 avx /proc/cpuinfo`; install a build without it"
    if number == _KILLED:
        return "the kernel may have killed it for want of memory: `dmesg | tail`, `free -h`"
    return f"`python -X faulthandler -c '{tried.partition(chr(39))[2].rstrip(chr(39))}'` shows where; a library may be missing or of another version"


def protobuf(facts: ProtobufFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether it is there once, and as Paddle wants it."""
    if not facts.version and not facts.copies:
        return [skipped("protobuf is not installed; Paddle brings it", "python -m pip install protobuf")]
    findings = []
    used = facts.imported or facts.version
    wanted = f"'protobuf{facts.required}'" if facts.required else "protobuf"
    if facts.error:
        reason = f"`import google.protobuf` fails: {facts.error}"
        findings.append(problem("UM-DOCTOR-043", reason, f"python -m pip install --force-reinstall {wanted}"))
    if used and facts.required and not satisfies(used, facts.required):
        reason = f"protobuf {used}, and Paddle {facts.paddle} wants {facts.required}"
        findings.append(problem("UM-DOCTOR-040", reason, f"python -m pip install {wanted}"))
    elif facts.paddle and release(facts.paddle) < OLD_PADDLE and release(used) >= NEW_PROTOBUF:
        reason = f"protobuf {used} does not work with Paddle {facts.paddle}: `Descriptors cannot be created directly`"
        hint = "python -m pip install 'protobuf<=3.20.3', or export PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python"
        findings.append(problem("UM-DOCTOR-041", reason, hint))
    if len(facts.copies) > 1 or (facts.version and facts.imported and facts.imported != facts.version):
        reason = f"several protobufs: {facts.imported or 'none'} is imported from {facts.copies[0] if facts.copies else facts.file}"
        reason += f", pip knows {facts.version or 'none'}; also: {some(facts.copies[1:]) or 'none'}"
        findings.append(warning("UM-DOCTOR-042", reason, "remove the others, or take their directories off PYTHONPATH"))
    if not findings and facts.implementation == "python":
        hint = "unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION, or install protobuf's wheel for this machine"
        findings.append(warning("UM-DOCTOR-044", f"protobuf {used} runs in pure Python, which is slow", hint))
    return findings or [ok(f"protobuf {used}" + (f", Paddle wants {facts.required}" if facts.required else ""))]


def paddle_collective(facts: CollectiveFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """With Paddle."""
    return _collective(facts)


def torch_collective(facts: CollectiveFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """With PyTorch."""
    return _collective(facts)


def _collective(facts: CollectiveFacts) -> list[DoctorFinding]:
    title, trial = TITLES[facts.framework], facts.trial
    if not facts.ready or trial is None:
        return [skipped(f"{title} can't be imported: see {facts.framework}")]
    what = f"an all-reduce of two processes ({title}, {facts.backend})"
    if trial.status is None:
        hint = "a firewall on loopback or on this address, or a wrong GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME: see address"
        return [problem("UM-DOCTOR-052", f"{what} is not done after {trial.limit_s:g} s", hint)]
    if trial.status != 0 or not facts.sums:
        reason = f"{what} failed with status {trial.status}" + (f": {facts.error}" if facts.error else "")
        hint = f"try it by hand: `umiak launch --nproc_per_node 2 -m umiak.doctor.trials.collective {facts.framework} {facts.backend} /tmp/sum 60`"
        return [problem("UM-DOCTOR-050", reason, hint)]
    if any(each != facts.expected for each in facts.sums):
        reason = f"{what} gave {', '.join(f'{each:g}' for each in facts.sums)} instead of {facts.expected:g}"
        return [
            problem(
                "UM-DOCTOR-051", reason, "the devices or their links may be broken; `nvidia-smi topo -m` shows them"
            )
        ]
    alone = "; one device is too few for nccl" if facts.backend == "gloo" and facts.node_devices == 1 else ""
    return [ok(f"2 processes, {facts.backend}: all-reduce is right, {trial.took_s:.1f} s{alone}")]

"""What follows from shared memory, limits, accelerators and kubeconfigs, and from what a backend says of its place.
A decider.

Of accelerators these are the FAQ's questions: is a card there,
is it visible, and is it the one that ``--devices`` means.
"""

from __future__ import annotations

from umiak.core.devices import VISIBILITY, DeviceKind
from umiak.core.names import is_digits
from umiak.doctor.judging.words import size, some
from umiak.doctor.verdicts import DoctorFinding, DoctorVerdict, ok, problem, skipped, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.problem import Problem
    from umiak.doctor.facts import DeviceFacts, KubeconfigFacts, LimitFacts, PlaceFacts, ShmFacts
    from umiak.doctor.request import DoctorRequest
    from umiak.doctor.verdicts import DoctorFinding

DOCKER_SHM_BYTES = 64 << 20
"""What a container gets that nobody gave more: too little for any data loader with several processes."""
LITTLE_SHM_BYTES = 512 << 20
FEW_FILES, VERY_FEW_FILES = 1024, 256
FEW_PROCESSES, VERY_FEW_PROCESSES = 2048, 256
FEW_TASKS_LEFT = 512
MUCH_LOCKED_BYTES = 1 << 30


def shm(facts: ShmFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether data loaders and NCCL have room."""
    more = "docker run --shm-size 8g; in a pod mount an emptyDir with `medium: Memory` at /dev/shm"
    if not facts.exists:
        return [problem("UM-DOCTOR-120", "there is no /dev/shm", more)]
    if not facts.writable:
        return [problem("UM-DOCTOR-120", "this user can't write to /dev/shm", "chmod 1777 /dev/shm")]
    reason = f"{size(facts.total_bytes)} at /dev/shm, {size(facts.free_bytes)} of it free"
    if facts.total_bytes <= DOCKER_SHM_BYTES:
        return [problem("UM-DOCTOR-121", f"{reason}: data loaders end with a bus error", more)]
    if facts.free_bytes < LITTLE_SHM_BYTES:
        hint = more if facts.total_bytes < 2 * LITTLE_SHM_BYTES else "remove what dead programs left: `ls -lt /dev/shm`"
        return [warning("UM-DOCTOR-121", reason, hint)]
    return [ok(reason)]


def limits(facts: LimitFacts, request: DoctorRequest) -> list[DoctorFinding]:
    """Whether processes may do what workers do."""
    findings = []
    wanted = max(FEW_FILES, 256 + 4 * request.workers * request.most_nodes)
    if facts.open_files is not None and facts.open_files < wanted:
        more = facts.most_open_files is None or facts.most_open_files >= wanted
        hint = (
            f"`ulimit -n {wanted}`"
            if more
            else "raise nofile in /etc/security/limits.conf, or docker run --ulimit nofile=65536"
        )
        make = problem if facts.open_files < VERY_FEW_FILES else warning
        findings.append(make("UM-DOCTOR-130", f"{facts.open_files} open files are allowed, {wanted} are wanted", hint))
    if facts.rdma and facts.locked_bytes is not None and facts.locked_bytes < MUCH_LOCKED_BYTES:
        reason = (
            f"{size(facts.locked_bytes)} of locked memory are allowed, and RDMA ({some(facts.rdma)}) needs much more"
        )
        hint = "`ulimit -l unlimited`, memlock in /etc/security/limits.conf, or docker run --ulimit memlock=-1"
        findings.append(problem("UM-DOCTOR-131", reason, hint))
    if facts.processes is not None and facts.processes < FEW_PROCESSES:
        make = problem if facts.processes < VERY_FEW_PROCESSES else warning
        reason = f"{facts.processes} processes and threads are allowed to this user; a worker has about a hundred"
        findings.append(make("UM-DOCTOR-132", reason, "`ulimit -u unlimited`, or nproc in /etc/security/limits.conf"))
    if facts.tasks is not None and facts.tasks - facts.tasks_now < FEW_TASKS_LEFT:
        reason = f"{facts.tasks} tasks are allowed in this control group, {facts.tasks_now} are there"
        findings.append(
            warning("UM-DOCTOR-133", reason, "docker run --pids-limit -1; systemd: TasksMax=infinity; or podPidsLimit")
        )
    locked = "unlimited" if facts.locked_bytes is None else size(facts.locked_bytes)
    shown = f"open files {_number(facts.open_files)}, locked memory {locked}, processes {_number(facts.processes)}"
    return findings or [ok(shown)]


def _number(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)


# ---- kubeconfigs, and the place that was named


def kubernetes(facts: KubeconfigFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether the files are there and private."""
    findings = []
    if facts.missing:
        findings.append(
            problem(
                "UM-DOCTOR-160",
                f"{facts.said_by} names no file: {some(facts.missing)}",
                f"`unset {facts.said_by}`, or correct it",
            )
        )
    if facts.unreadable:
        findings.append(
            problem(
                "UM-DOCTOR-160",
                f"kubeconfig can't be read by this user: {some(facts.unreadable)}",
                f"ls -l {facts.unreadable[0]}",
            )
        )
    if facts.open_to_others:
        reason = f"others may read or change the kubeconfig, which holds credentials: {some(facts.open_to_others)}"
        findings.append(warning("UM-DOCTOR-161", reason, f"chmod 600 {facts.open_to_others[0]}"))
    if not findings and not facts.files:
        return [skipped("no kubeconfig", "KUBECONFIG or ~/.kube/config, where jobs go to Kubernetes")]
    return findings or [ok(f"{some(facts.files)}; rights are checked with --on PLACE")]


def place(facts: PlaceFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """What the backend found, in its own codes."""
    if facts.error:
        return [_finding(each, is_warning=False) for each in facts.error]
    if not facts.name:
        named = (
            f"umiak doctor --on PLACE, with one of {some(facts.known)}" if facts.known else "umiak doctor --on PLACE"
        )
        return [skipped("no place was named", named)]
    bad = [_finding(each.problem, is_warning=each.is_warning) for each in facts.findings if each.problem]
    good = [each.text for each in facts.findings if not each.problem]
    if bad:
        return [*bad, *([ok(some(good))] if good else [])]
    return [ok(f"{facts.name} ({facts.backend}): " + (some(good) if good else "its backend finds nothing wrong"))]


def _finding(wrong: Problem, *, is_warning: bool) -> DoctorFinding:
    reason = (f"{wrong.where}: " if wrong.where else "") + wrong.what + (f": {wrong.why}" if wrong.why else "")
    verdict = DoctorVerdict.WARNING if is_warning else DoctorVerdict.PROBLEM
    return DoctorFinding(verdict=verdict, reason=reason, hint=wrong.hint, code=wrong.code)


# ---- accelerators

_SELECTED = "FLAGS_selected_"


def devices(facts: DeviceFacts, request: DoctorRequest) -> list[DoctorFinding]:
    """All of it."""
    findings = [*_driver(facts), *_visibility(facts), *_selected(facts), *_chosen(facts, request)]
    if findings:
        return findings
    if not facts.ids:
        return [ok("no accelerators: workers use the CPU")]
    by = f" ({facts.said_by})" if facts.said_by else ""
    return [ok(f"{len(facts.ids)} {facts.kind}: {some(facts.ids)}{by}")]


def _driver(facts: DeviceFacts) -> list[DoctorFinding]:
    findings = []
    if facts.closed:
        hint = (
            "in a container start it with --gpus all or the vendor's runtime; else `ls -l /dev` shows owner and group"
        )
        findings.append(problem("UM-DOCTOR-067", f"devices that this user can't open: {some(facts.closed)}", hint))
    if facts.tool_error:
        hint = f"run `{facts.tool}` yourself: the driver may not be loaded, or be older than the library"
        findings.append(problem("UM-DOCTOR-065", f"{facts.tool} fails: {facts.tool_error}", hint))
    return findings


def _visibility(facts: DeviceFacts) -> list[DoctorFinding]:
    """What visibility variables hide, invent, repeat, or say differently from one another."""
    findings = []
    for kind in DeviceKind:
        count = facts.kinds.get(kind.value, 0)
        variables = {name: facts.variables[name] for name in VISIBILITY[kind] if name in facts.variables}
        lists = {name: _ids(text) for name, text in variables.items()}
        if _is_borrowed(kind, facts):
            continue
        if len({tuple(each) for each in lists.values()}) > 1:
            reason = "contradicting variables: " + ", ".join(f"{name}={text}" for name, text in variables.items())
            findings.append(problem("UM-DOCTOR-062", reason, f"unset all but one: `unset {list(variables)[-1]}`"))
        for name, ids in lists.items():
            findings += _list(name, variables[name], ids, count, kind.value)
    return findings


def _is_borrowed(kind: DeviceKind, facts: DeviceFacts) -> bool:
    """Whether CUDA_VISIBLE_DEVICES speaks of another kind: software for ROCm and Kunlun obeys it, too."""
    if facts.kinds.get(kind.value):
        return False
    others = facts.kinds.get(DeviceKind.DCU.value) or facts.kinds.get(DeviceKind.XPU.value)
    return kind is DeviceKind.DCU or (kind is DeviceKind.GPU and bool(others))


def _list(name: str, text: str, ids: list[str], count: int, kind: str) -> list[DoctorFinding]:
    if text.strip() == "all":
        return []
    if not ids:
        return (
            [warning("UM-DOCTOR-060", f"{name}={text!r} hides all {count} {kind}", f"`unset {name}` to use them")]
            if count
            else []
        )
    findings = []
    if len(set(ids)) < len(ids):
        findings.append(
            problem(
                "UM-DOCTOR-066", f"{name}={text} names a device twice", f"export {name}={','.join(dict.fromkeys(ids))}"
            )
        )
    beyond = [each for each in ids if is_digits(each) and int(each) >= count]
    if beyond:
        there = f"there are {count}, numbered from 0" if count else "there are none"
        reason = f"{name}={text} names devices that are not there: {some(beyond)} ({there})"
        fixed = f"export {name}={','.join(str(each) for each in range(count))}" if count else f"`unset {name}`"
        findings.append(problem("UM-DOCTOR-061", reason, f"{fixed}; in a container these numbers begin at 0 as well"))
    return findings


def _selected(facts: DeviceFacts) -> list[DoctorFinding]:
    """FLAGS_selected_gpus and its like: positions in the visible list, set by the launcher for each worker."""
    findings = []
    for name, text in facts.variables.items():
        if not name.startswith(_SELECTED):
            continue
        kind = name.removeprefix(_SELECTED).removesuffix("s")
        mine = "gpu" if facts.kind == "dcu" else facts.kind
        beyond = [each for each in _ids(text) if mine == kind and is_digits(each) and int(each) >= len(facts.ids)]
        if beyond or (facts.ids and mine != kind):
            shown = f"{len(facts.ids)} {facts.kind} visible" + (f" ({facts.said_by})" if facts.said_by else "")
            reason = f"{name}={text} contradicts what is visible: {shown}; it counts positions in that list"
            findings.append(problem("UM-DOCTOR-063", reason, f"`unset {name}`: the launcher sets it for each worker"))
        else:
            reason = f"{name}={text} is set in this shell; a program started without the launcher obeys it"
            findings.append(warning("UM-DOCTOR-063", reason, f"`unset {name}`: the launcher sets it for each worker"))
    return findings


def _chosen(facts: DeviceFacts, request: DoctorRequest) -> list[DoctorFinding]:
    """``--devices`` has absolute numbers, those of the visibility variable."""
    missing = [each for each in request.devices or () if each not in facts.ids]
    if not missing:
        return []
    visible = ",".join(facts.ids) or "none"
    by = f" ({facts.said_by})" if facts.said_by else ""
    hint = "--devices takes the numbers of the visibility variable, not positions in it"
    return [problem("UM-DOCTOR-064", f"--devices {','.join(request.devices or ())}: visible are {visible}{by}", hint)]


def _ids(text: str) -> list[str]:
    """As the runtimes read it: what follows a -1 is hidden."""
    ids: list[str] = []
    for word in text.split(","):
        each = word.strip()
        if not each or each.startswith("-") or each.lower() in ("none", "void", "nodevfiles", "all"):
            break
        ids.append(each)
    return ids

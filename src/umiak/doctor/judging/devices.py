"""What follows from accelerators and the variables about them. A decider.

The FAQ's questions: is a card there, is it visible, and is it the one that ``--devices`` means.
"""

from __future__ import annotations

from umiak.core.devices import VISIBILITY, DeviceKind
from umiak.core.names import is_digits
from umiak.doctor.judging.words import some
from umiak.doctor.verdicts import ok, problem, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.asked import Asked
    from umiak.doctor.facts import DeviceFacts
    from umiak.doctor.verdicts import DoctorFinding

_SELECTED = "FLAGS_selected_"


def devices(facts: DeviceFacts, asked: Asked) -> list[DoctorFinding]:
    """All of it."""
    found = [*_driver(facts), *_visibility(facts), *_selected(facts), *_chosen(facts, asked)]
    if found:
        return found
    if not facts.ids:
        return [ok("no accelerators: workers use the CPU")]
    by = f" ({facts.said_by})" if facts.said_by else ""
    return [ok(f"{len(facts.ids)} {facts.kind}: {some(facts.ids)}{by}")]


def _driver(facts: DeviceFacts) -> list[DoctorFinding]:
    found = []
    if facts.closed:
        hint = (
            "in a container start it with --gpus all or the vendor's runtime; else `ls -l /dev` shows owner and group"
        )
        found.append(problem("UM-DOCTOR-067", f"devices that this user can't open: {some(facts.closed)}", hint))
    if facts.tool_error:
        hint = f"run `{facts.tool}` yourself: the driver may not be loaded, or be older than the library"
        found.append(problem("UM-DOCTOR-065", f"{facts.tool} fails: {facts.tool_error}", hint))
    return found


def _visibility(facts: DeviceFacts) -> list[DoctorFinding]:
    """What visibility variables hide, invent, repeat, or say differently from one another."""
    found = []
    for kind in DeviceKind:
        count = facts.kinds.get(kind.value, 0)
        said = {name: facts.variables[name] for name in VISIBILITY[kind] if name in facts.variables}
        lists = {name: _ids(text) for name, text in said.items()}
        if _is_borrowed(kind, facts):
            continue
        if len({tuple(each) for each in lists.values()}) > 1:
            reason = "contradicting variables: " + ", ".join(f"{name}={text}" for name, text in said.items())
            found.append(problem("UM-DOCTOR-062", reason, f"unset all but one: `unset {list(said)[-1]}`"))
        for name, ids in lists.items():
            found += _list(name, said[name], ids, count, kind.value)
    return found


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
    found = []
    if len(set(ids)) < len(ids):
        found.append(
            problem(
                "UM-DOCTOR-066", f"{name}={text} names a device twice", f"export {name}={','.join(dict.fromkeys(ids))}"
            )
        )
    beyond = [each for each in ids if is_digits(each) and int(each) >= count]
    if beyond:
        there = f"there are {count}, numbered from 0" if count else "there are none"
        reason = f"{name}={text} names devices that are not there: {some(beyond)} ({there})"
        fixed = f"export {name}={','.join(str(each) for each in range(count))}" if count else f"`unset {name}`"
        found.append(problem("UM-DOCTOR-061", reason, f"{fixed}; in a container these numbers begin at 0 as well"))
    return found


def _selected(facts: DeviceFacts) -> list[DoctorFinding]:
    """FLAGS_selected_gpus and its like: positions in the visible list, set by the launcher for each worker."""
    found = []
    for name, text in facts.variables.items():
        if not name.startswith(_SELECTED):
            continue
        kind = name.removeprefix(_SELECTED).removesuffix("s")
        mine = "gpu" if facts.kind == "dcu" else facts.kind
        beyond = [each for each in _ids(text) if mine == kind and is_digits(each) and int(each) >= len(facts.ids)]
        if beyond or (facts.ids and mine != kind):
            shown = f"{len(facts.ids)} {facts.kind} visible" + (f" ({facts.said_by})" if facts.said_by else "")
            reason = f"{name}={text} contradicts what is visible: {shown}; it counts positions in that list"
            found.append(problem("UM-DOCTOR-063", reason, f"`unset {name}`: the launcher sets it for each worker"))
        else:
            reason = f"{name}={text} is set in this shell; a program started without the launcher obeys it"
            found.append(warning("UM-DOCTOR-063", reason, f"`unset {name}`: the launcher sets it for each worker"))
    return found


def _chosen(facts: DeviceFacts, asked: Asked) -> list[DoctorFinding]:
    """``--devices`` has absolute numbers, those of the visibility variable."""
    missing = [each for each in asked.devices or () if each not in facts.ids]
    if not missing:
        return []
    visible = ",".join(facts.ids) or "none"
    by = f" ({facts.said_by})" if facts.said_by else ""
    hint = "--devices takes the numbers of the visibility variable, not positions in it"
    return [problem("UM-DOCTOR-064", f"--devices {','.join(asked.devices or ())}: visible are {visible}{by}", hint)]


def _ids(text: str) -> list[str]:
    """As the runtimes read it: what follows a -1 is hidden."""
    ids: list[str] = []
    for word in text.split(","):
        each = word.strip()
        if not each or each.startswith("-") or each.lower() in ("none", "void", "nodevfiles", "all"):
            break
        ids.append(each)
    return ids

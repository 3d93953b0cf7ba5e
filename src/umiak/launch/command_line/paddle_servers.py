"""What Paddle's flags say about servers, trainers and heter workers in parameter-server mode.
A decider, part of paddle.

Either each node runs so many of them (``--server_num 2 --trainer_num 4``), or lists name every one (``--servers``,
``--trainers``), and each node runs those at its own address. Lists need no meeting of nodes, so whatever else must
be agreed (gloo's port, the ports of workers that were listed without one) has to follow from them.
"""

from __future__ import annotations

from umiak.core.cluster import MOST_WORKERS_ON_NODE, Mode, join_host_port, split_host_port
from umiak.core.names import DefaultPort, is_digits
from umiak.core.value import replace
from umiak.launch.command_line import addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.options import LaunchOptions
    from umiak.schema.flags import FlagFindings, Parsed

    Lists = dict[str, tuple[str, ...]]

HETER_DEVICES = ("cpu", "gpu", "xpu")
COUNTS = {"servers": "server_num", "trainers": "trainer_num", "heter_workers": "heter_worker_num"}


def with_servers(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> LaunchOptions:
    """The options with everything that concerns servers, trainers and heter workers."""
    names = tuple(COUNTS) if made.mode is Mode.PS_HETER else ("servers", "trainers")
    for name in (*names, *(COUNTS[name] for name in names), "heter_devices"):
        if _has_stages(parsed, name, findings):
            return made
    counts = {name: _count(parsed, COUNTS[name], findings) for name in names}
    lists: Lists = {}
    for name in names:
        lists[name] = _listed(parsed, name, len(lists.get("servers", ())), findings)
        _check_count(parsed, name, len(lists[name]), findings)
    lists = _complete(lists, counts, parsed, findings)
    per_node = {name: None if any(lists.values()) else counts[name] for name in names}
    if not any(lists.values()) and not any(counts.values()):
        spoken = " and ".join(parsed[COUNTS[name]].spoken for name in names)
        findings.problem("UM-LAUNCH-118", f"nothing to run: {spoken}", hint="let one of them be 1 or more")
    return replace(
        made,
        server_endpoints=lists["servers"],
        trainer_endpoints=lists["trainers"],
        heter_endpoints=lists.get("heter_workers", ()),
        servers_per_node=per_node["servers"],
        trainers_per_node=per_node["trainers"],
        heters_per_node=per_node.get("heter_workers"),
        heter_device=_heter_device(parsed, findings),
        gloo_port=parsed.number("gloo_port") if any(lists.values()) else made.gloo_port,
    )


def _has_stages(parsed: Parsed, name: str, findings: FlagFindings) -> bool:
    """Paddle could chain heter workers in several stages, with semicolons between them."""
    stages = parsed.text(name).rstrip(";").count(";") + 1
    if stages > 1:
        findings.problem(
            "UM-LAUNCH-114",
            f"workers in {stages} stages: {parsed[name].spoken}",
            why="umiak runs trainers as the first stage and all heter workers as the second",
            hint="put all heter workers into one stage: separate them with commas, not with semicolons",
        )
    return stages > 1


def _count(parsed: Parsed, name: str, findings: FlagFindings) -> int:
    """How many each node runs: 1 if nothing is said. The number of heter workers is a text in Paddle."""
    text = parsed.text(name).rstrip(";").strip()
    if text and (not is_digits(text) or len(text) > 9 or int(text) > MOST_WORKERS_ON_NODE):
        hint = f"write how many each node runs, as in --{name} 2; at most {MOST_WORKERS_ON_NODE}"
        findings.problem("UM-LAUNCH-114", f"expected a number of workers, got {parsed[name].spoken}", hint=hint)
        return 1
    return int(text) if text else 1


def _listed(parsed: Parsed, name: str, servers: int, findings: FlagFindings) -> tuple[str, ...]:
    text = parsed.text(name).rstrip(";")
    if not text:
        return ()
    try:
        if parsed[name].said_as == "--workers":
            text = _with_old_ports(text, servers)
        return addresses.endpoints(text)
    except ValueError as error:
        hint = f"write host:port for each, as in --{name} 10.0.0.1:6170,10.0.0.2:6170"
        findings.problem("UM-LAUNCH-107", f"{error}: {parsed[name].spoken}", hint=hint)
        return ()


def _with_old_ports(text: str, servers: int) -> str:
    """``--workers`` might leave the ports out; the old launcher then counted up behind its servers."""
    pairs = [split_host_port(one) for one in addresses.split(text, ",")]
    if all(port for _, port in pairs):
        return text
    return ",".join(join_host_port(host, DefaultPort.OLD_FIRST + servers + i) for i, (host, _) in enumerate(pairs))


def _check_count(parsed: Parsed, name: str, listed: int, findings: FlagFindings) -> None:
    """A list says how many there are; a number beside it must say the same, or be the environment's."""
    count, names = parsed[COUNTS[name]], parsed[name]
    if not (count.said and names.said and listed) or str(count.value) == str(listed):
        return
    if count.source is names.source:
        findings.problem(
            "UM-LAUNCH-113",
            f"a list of {listed} and another number: {names.spoken} and {count.spoken}",
            hint=f"leave out {count.said_as}: the list says it",
        )
    else:
        findings.note(f"{names.spoken} says how many there are; {count.spoken} is not used")


def _complete(lists: Lists, counts: dict[str, int], parsed: Parsed, findings: FlagFindings) -> Lists:
    """Lists go together: one for each role. On a single host a missing one can be made up, as the old launcher did."""
    known = [one for items in lists.values() for one in items]
    missing = [name for name, items in lists.items() if not items and counts[name]]
    if not known or not missing or any(parsed.said(name) for name in missing):
        return lists
    hosts = {addresses.host_of(one) for one in known}
    if len(hosts) > 1:
        given = next(name for name, items in lists.items() if items)
        findings.problem(
            "UM-LAUNCH-112",
            f"a list of {given} but none of {' and '.join(missing)}: {parsed[given].spoken}",
            why=f"nothing says on which of the {len(hosts)} hosts the {' and '.join(missing)} are",
            hint=f"add --{missing[0]} host:port,... or say only numbers: --server_num 1 --trainer_num 1",
        )
        return lists
    host = hosts.pop()
    free = (
        one for one in (join_host_port(host, port) for port in range(DefaultPort.OLD_FIRST, 65536)) if one not in known
    )
    return {name: items or tuple(next(free) for _ in range(counts[name])) for name, items in lists.items()}


def _heter_device(parsed: Parsed, findings: FlagFindings) -> str | None:
    device = parsed.text("heter_devices").rstrip(";").strip().lower()
    if device and device not in HETER_DEVICES:
        hint = f"it is one of {', '.join(HETER_DEVICES)}"
        spoken = parsed["heter_devices"].spoken
        findings.problem("UM-LAUNCH-114", f"expected a device for heter workers, got {spoken}", hint=hint)
    return device or None

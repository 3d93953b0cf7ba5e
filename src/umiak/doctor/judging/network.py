"""What follows from ports, addresses, names, clocks and proxies. A decider."""

from __future__ import annotations

from umiak.core.names import is_digits, is_loopback
from umiak.doctor.judging.words import some
from umiak.doctor.verdicts import ok, problem, skipped, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.facts import AddressFacts, ClockFacts, DnsFacts, PortsFacts, ProxyFacts
    from umiak.doctor.request import DoctorRequest
    from umiak.doctor.verdicts import DoctorFinding

FEW_PORTS = 64
SLOW_LOOK_UP_S = 1.0
CLOCK_WARNING_S, CLOCK_PROBLEM_S = 2.0, 30.0
PRIVILEGED = 1024
LOOPBACK = ("127.0.0.1", "localhost")


def ports(facts: PortsFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether workers and launchers can listen."""
    findings = []
    for port in facts.named:
        if port.error and port.number < PRIVILEGED and not port.holder:
            reason = f"port {port.number} ({port.purpose}) can't be listened on: {port.error}"
            findings.append(problem("UM-DOCTOR-073", reason, "choose one from 1024 on: only root may use those below"))
        elif port.error:
            by = f" by {port.holder}" if port.holder else ""
            reason = f"port {port.number} ({port.purpose}) is in use{by}: {port.error}"
            hint = f"end that program (`ss -ltnp 'sport = :{port.number}'` shows it), or choose others with --start_port or --master"
            findings.append(problem("UM-DOCTOR-070", reason, hint))
        elif facts.ephemeral_first <= port.number <= facts.ephemeral_last:
            reason = f"port {port.number} ({port.purpose}) is one that the kernel may give to an outgoing connection"
            reason += f" ({facts.ephemeral_first}-{facts.ephemeral_last})"
            findings.append(warning("UM-DOCTOR-072", reason, f"choose one below {facts.ephemeral_first}"))
    if facts.free < FEW_PORTS:
        reason = f"{facts.free} free ports between {facts.first} and {facts.last}, from which workers get theirs"
        findings.append(
            problem("UM-DOCTOR-071", reason, "end programs that listen there: `ss -ltn | wc -l` counts them")
        )
    named = f"{some([str(port.number) for port in facts.named])} free; " if facts.named else ""
    return findings or [ok(f"{named}{facts.free} ports between {facts.first} and {facts.last} are free")]


def address(facts: AddressFacts, request: DoctorRequest) -> list[DoctorFinding]:
    """Whether others would be told the right address."""
    findings = []
    if request.host and facts.announced not in facts.own and not is_loopback(facts.announced):
        reason = f"--host {request.host} is no address of this machine, which has {some(facts.own)}"
        findings.append(
            problem("UM-DOCTOR-083", reason, "`ip -brief address` lists them; leave --host out to use the detected one")
        )
    elif not facts.answers:
        reason = f"nothing reaches {facts.announced} ({facts.reason}) from this machine itself: {facts.error}"
        hint = "a firewall? `nft list ruleset` or `iptables -S`; another address: --host"
        findings.append(problem("UM-DOCTOR-081", reason, hint))
    if is_loopback(facts.announced) and request.has_other_nodes:
        reason = f"other nodes would be told {facts.announced}, which means themselves"
        hint = "is the network up? `ip -brief address`; name the right address with --host"
        findings.append(problem("UM-DOCTOR-080", reason, hint))
    findings += _own_name(facts) if request.has_other_nodes else []
    for name, text in facts.interface_variables.items():
        missing = _missing_interfaces(text, facts.interfaces)
        if missing:
            reason = f"{name}={text}: there is no interface {some(missing)}, only {some(facts.interfaces)}"
            findings.append(problem("UM-DOCTOR-084", reason, f"`unset {name}`, or name one of `ip -brief link`"))
    where = f" on {facts.interface}" if facts.interface else ""
    return findings or [ok(f"{facts.announced}{where} ({facts.reason}), answers")]


def _own_name(facts: AddressFacts) -> list[DoctorFinding]:
    if not facts.name_means:
        hint = f'echo "{facts.announced} {facts.hostname}" >> /etc/hosts'
        return [warning("UM-DOCTOR-085", f"this machine does not know its own name: {facts.hostname}", hint)]
    if is_loopback(facts.name_means):
        by = f" ({facts.name_source})" if facts.name_source else ""
        reason = f"the host's own name {facts.hostname} means {facts.name_means}{by}; umiak does not use it, Gloo and others do"
        hint = f"write {facts.announced} there, or export GLOO_SOCKET_IFNAME={facts.interface or 'eth0'}"
        return [warning("UM-DOCTOR-082", reason, hint)]
    return []


def _missing_interfaces(text: str, known: tuple[str, ...]) -> list[str]:
    """As NCCL reads it: prefixes, ``=`` for whole names, ``^`` for all but these."""
    if text.startswith("^"):
        return []
    names = [each.strip() for each in text.removeprefix("=").split(",") if each.strip()]
    return [name for name in names if not any(each.startswith(name) for each in known)]


def dns(facts: DnsFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether hosts are known and there is a way to them."""
    if not facts.hosts:
        return [skipped("no hosts were named", "umiak doctor --ips 10.0.0.1,10.0.0.2, or --master HOST:PORT")]
    findings = []
    for host in facts.hosts:
        if host.error:
            hint = f"`getent hosts {host.name}`; add it to DNS or /etc/hosts, or use the address"
            findings.append(problem("UM-DOCTOR-090", f"unknown host: {host.name}: {host.error}", hint))
        elif host.is_name and is_loopback(host.address) and len(facts.hosts) > 1:
            reason = f"{host.name} means {host.address} here, which every node takes for itself"
            findings.append(
                problem("UM-DOCTOR-091", reason, f"`getent hosts {host.name}`; correct /etc/hosts, or use its address")
            )
        elif not host.has_route:
            reason = f"no route to {host.name}" + (f" ({host.address})" if host.is_name else "")
            findings.append(problem("UM-DOCTOR-093", reason, f"`ip route get {host.address}`"))
        elif host.took_s > SLOW_LOOK_UP_S:
            reason = f"looking up {host.name} took {host.took_s:.1f} s"
            findings.append(
                warning("UM-DOCTOR-092", reason, "is the first name server of /etc/resolv.conf alive? or use addresses")
            )
    return findings or [ok("known, with a route: " + some([host.name for host in facts.hosts]))]


def clock(facts: ClockFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether it is right."""
    hint = "let NTP set it: `timedatectl set-ntp true`, `chronyc tracking`"
    findings = []
    if facts.now_s < facts.installed_s - CLOCK_PROBLEM_S:
        reason = f"the clock is {facts.installed_s - facts.now_s:.0f} s before the time at which umiak was installed"
        findings.append(problem("UM-DOCTOR-101", reason, hint))
    for other in facts.others:
        certain_s = abs(other.ahead_s) - other.uncertainty_s
        if certain_s > CLOCK_WARNING_S:
            direction = "ahead of" if other.ahead_s > 0 else "behind"
            reason = f"this clock is {abs(other.ahead_s):.1f} s {direction} that of {other.source}"
            make = problem if certain_s > CLOCK_PROBLEM_S else warning
            findings.append(make("UM-DOCTOR-100", reason, hint))
    if findings:
        return findings
    kept = {True: "synchronised", False: "not synchronised by NTP", None: "synchronisation unknown"}[facts.synchronised]
    if facts.others:
        return [ok(f"within {CLOCK_WARNING_S:g} s of {some([each.source for each in facts.others])}; {kept}")]
    if facts.silent:
        return [skipped(f"no answer from {some(facts.silent)}: see etcd")]
    return [ok(f"{kept}; nodes are compared by `umiak launch --check`")]


def proxy(facts: ProxyFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether requests to this machine and to the nodes would go to a proxy."""
    proxies = {name: text for name, text in facts.variables.items() if name.lower() != "no_proxy"}
    if not proxies:
        return [ok("no proxy variables")]
    findings = []
    for name, text in proxies.items():
        host = text.partition("://")[2] if "://" in text else text
        if not host.strip("/") or " " in host or not _port_is_right(host):
            findings.append(
                problem("UM-DOCTOR-113", f"{name} is no address of a proxy: {text}", f"export {name}=http://HOST:PORT")
            )
    for name in sorted({name.lower() for name in facts.variables}):
        spellings = [facts.variables.get(each, "") for each in (name, name.upper())]
        if all(spellings) and spellings[0] != spellings[1]:
            reason = f"{name}={spellings[0]} and {name.upper()}={spellings[1]} differ; programs read one or the other"
            findings.append(warning("UM-DOCTOR-112", reason, f"`unset {name.upper()}`, or set both alike"))
    excepted = facts.variables.get("no_proxy", facts.variables.get("NO_PROXY", ""))
    names = some(list(proxies))
    near = [host for host in LOOPBACK if not is_excepted(host, excepted)]
    far = [host for host in facts.targets if not is_loopback(host) and not is_excepted(host, excepted)]
    wanted = ",".join(dict.fromkeys([*(excepted.split(",") if excepted else []), *near, *far]))
    if near:
        reason = f"{names} would catch requests to {', '.join(near)}: no_proxy is {excepted or 'not set'}"
        findings.append(warning("UM-DOCTOR-110", reason, f"export no_proxy={wanted} NO_PROXY={wanted}"))
    if far:
        reason = f"{names} would catch requests to nodes: {some(far)}; no_proxy is {excepted or 'not set'}"
        findings.append(warning("UM-DOCTOR-111", reason, f"export no_proxy={wanted} NO_PROXY={wanted}"))
    return findings or [ok(f"{names}; no_proxy has loopback" + (" and the nodes" if facts.targets else ""))]


def _port_is_right(host: str) -> bool:
    _, colon, port = host.rstrip("/").rpartition(":")
    return not colon or port.endswith("]") or (is_digits(port) and 0 < int(port[:6]) < 65536)


def is_excepted(host: str, no_proxy: str) -> bool:
    """Whether no_proxy names a host: itself, a domain that it is in, or, as many programs understand it, a network."""
    for word in no_proxy.split(","):
        each = word.strip().lower()
        if each == "*":
            return True
        if not each:
            continue
        if "/" in each and _in_network(host, each):
            return True
        if host.lower() == each or host.lower().endswith("." + each.removeprefix("*").lstrip(".")):
            return True
    return False


def _in_network(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return is_digits(network.rpartition("/")[2]) and ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False

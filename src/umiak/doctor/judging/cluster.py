"""What follows from etcd, and what an elastic job needs. A decider."""

from __future__ import annotations

from umiak.doctor.judging.words import release, some
from umiak.doctor.verdicts import ok, problem, skipped, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.facts import ElasticFacts, EtcdFacts
    from umiak.doctor.request import DoctorRequest
    from umiak.doctor.verdicts import DoctorFinding

OLDEST_ETCD = (3, 4)
SLOW_ETCD_S = 0.1
LONG_TIMEOUT_S = 300.0
DEFAULT_JOB = "default"
NO_ETCD = "umiak doctor --master etcd://HOST:2379"


def etcd(facts: EtcdFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether launchers can elect their master there."""
    if not facts.endpoints:
        return [skipped("no etcd was named", NO_ETCD)]
    findings = []
    silent = [each for each in facts.endpoints if each.error]
    if silent:
        named = some([f"{each.endpoint}: {each.error}" for each in silent])
        host, _, port = silent[0].endpoint.rpartition(":")
        hint = f"does it run, and listen beyond loopback (--listen-client-urls)? `curl --noproxy '*' http://{host}:{port}/version`"
        if len(silent) == len(facts.endpoints):
            return [problem("UM-DOCTOR-140", f"etcd does not answer: {named}", hint)]
        findings.append(warning("UM-DOCTOR-141", f"some of etcd does not answer: {named}", hint))
    for each in facts.endpoints:
        if each.error:
            continue
        if release(each.version) < OLDEST_ETCD:
            reason = f"etcd at {each.endpoint} is {each.version or 'of no known version'}"
            findings.append(problem("UM-DOCTOR-142", reason, "umiak needs 3.4 or newer"))
        if not each.healthy:
            reason = f"etcd at {each.endpoint} is not healthy" + (f": {each.health_text}" if each.health_text else "")
            findings.append(
                problem("UM-DOCTOR-145", reason, f"`etcdctl --endpoints http://{each.endpoint} endpoint status`")
            )
        elif each.latency_s > SLOW_ETCD_S:
            reason = f"etcd at {each.endpoint} takes {each.latency_s * 1000:.0f} ms for a read"
            findings.append(warning("UM-DOCTOR-143", reason, "is its disk or the network busy? `etcdctl check perf`"))
    if facts.write_error:
        hint = "umiak uses no password and no TLS with etcd: does it ask for one? is its space exhausted (`etcdctl alarm list`)?"
        findings.append(problem("UM-DOCTOR-144", f"etcd takes no keys below /umiak: {facts.write_error}", hint))
    members = [
        f"{each.endpoint} {each.version}, {each.latency_s * 1000:.1f} ms" for each in facts.endpoints if not each.error
    ]
    return findings or [ok(f"{some(members)}; written and taken back")]


def elastic(facts: ElasticFacts, request: DoctorRequest) -> list[DoctorFinding]:
    """The four conditions of the FAQ, and one more: the name must not be in use."""
    is_range = request.least_nodes < request.most_nodes
    if not is_range and request.elastic_level < 0:
        return [
            skipped(
                "not asked for: --nnodes is no range",
                "umiak doctor --nnodes 2:4 --job_id NAME --master etcd://HOST:2379",
            )
        ]
    findings = []
    if not is_range:
        reason = f"--elastic_level {request.elastic_level}, but --nnodes {request.most_nodes} is no range: the job restarts, and keeps its size"
        findings.append(
            problem(
                "UM-DOCTOR-150",
                reason,
                f"--nnodes {request.most_nodes}:{request.most_nodes + 2} lets it grow and shrink",
            )
        )
    if request.job_id == DEFAULT_JOB and (request.etcd or request.master):
        reason = f"the job has the name that all have: {DEFAULT_JOB}"
        findings.append(
            warning("UM-DOCTOR-151", reason, "give it one of its own, the same on all nodes: --job_id NAME")
        )
    if facts.master_of_job:
        reason = f"a job {request.job_id} runs already, led by {facts.master_of_job}: nodes would join it"
        findings.append(warning("UM-DOCTOR-152", reason, "choose another --job_id, unless that is meant"))
    if request.elastic_timeout_s > LONG_TIMEOUT_S:
        reason = (
            f"--elastic_timeout {request.elastic_timeout_s:g}: so long a job waits for more nodes when some are there"
        )
        findings.append(warning("UM-DOCTOR-153", reason, "30 is the default"))
    if request.max_restart == 0:
        findings.append(
            warning(
                "UM-DOCTOR-154", "--max_restart 0: a worker that fails ends the job", "leave it out, or --max_restart 3"
            )
        )
    if facts.etcd_error:
        findings.append(problem("UM-DOCTOR-140", f"etcd does not answer: {facts.etcd_error}", "see the check etcd"))
    if findings:
        return findings
    through = "etcd" if request.etcd else "the built-in master (new nodes must know its address; etcd always knows it)"
    return [ok(f"{request.least_nodes} to {request.most_nodes} nodes, job {request.job_id}, through {through}")]

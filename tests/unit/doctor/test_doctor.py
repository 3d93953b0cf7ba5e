"""The deciders of `umiak doctor`: what follows from facts that this machine does not have, and how reports are shown."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from umiak.cli import main
from umiak.cli.doctor import command
from umiak.cli.doctor.flags import FLAGS
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.doctor import facts, report, running
from umiak.doctor.checks import CHECKS, DoctorCheck, chosen
from umiak.doctor.judging import cluster, frameworks, installation, machine, network
from umiak.doctor.judging.words import release, satisfies, size
from umiak.doctor.request import DoctorRequest
from umiak.doctor.verdicts import CheckReport, DoctorVerdict, ok, problem, skipped, warning
from umiak.schema import command_line

ALONE = DoctorRequest(environ={}, directory="/work")
OF_TWO = replace(ALONE, least_nodes=2, most_nodes=2)


def told(findings: Any) -> list[tuple[str, str]]:
    return [(each.verdict.value, each.code.removeprefix("UM-DOCTOR-")) for each in findings]


# ---- frameworks

IMPORTED = facts.TrialFacts(status=0, took_s=1.5, limit_s=55)
PADDLE = facts.FrameworkFacts(
    name="paddle", installed="3.3.1", found=True, trial=IMPORTED, version="3.3.1", file="/x", build="cpu"
)


@pytest.mark.parametrize(
    ("changes", "expected", "text"),
    [
        ({}, ("ok", ""), "PaddlePaddle 3.3.1 (cpu), imported in 1.5 s"),
        ({"found": False}, ("skipped", ""), "not installed"),
        (
            {"version": "", "trial": replace(IMPORTED, last_lines=("ImportError: libx.so",))},
            ("problem", "030"),
            "libx.so",
        ),
        ({"version": "", "trial": replace(IMPORTED, status=-4)}, ("problem", "031"), "SIGILL"),
        ({"version": "", "trial": replace(IMPORTED, status=None)}, ("problem", "032"), "not done after 55 s"),
        ({"in_directory": True}, ("problem", "033"), "working directory"),
        ({"node_kind": "gpu", "node_devices": 8}, ("warning", "034"), "built for the CPU, and this node shows 8 gpu"),
        (
            {"build": "cuda 12.6", "device_count": 6, "node_kind": "gpu", "node_devices": 8},
            ("problem", "035"),
            "counts 6 devices, and this node shows 8 gpu",
        ),
        (
            {"build": "cuda 12.6", "device_count": 8, "node_kind": "gpu", "node_devices": 8},
            ("ok", ""),
            "(cuda 12.6, 8 devices)",
        ),
    ],
)
def test_a_framework(changes: dict[str, Any], expected: tuple[str, str], text: str) -> None:
    findings = frameworks.paddle(replace(PADDLE, **changes), ALONE)
    assert told(findings) == [expected]
    assert text in findings[0].reason


def test_a_crash_for_want_of_instructions_has_its_own_hint() -> None:
    (finding,) = frameworks.paddle(replace(PADDLE, trial=replace(IMPORTED, status=-4)), ALONE)
    assert "avx" in (finding.hint or "")
    (finding,) = frameworks.paddle(replace(PADDLE, trial=replace(IMPORTED, status=-11)), ALONE)
    assert finding.hint
    assert finding.hint.startswith("`python -X faulthandler -c 'import paddle'`")


@pytest.mark.parametrize(
    ("paddle", "required", "protobuf", "expected"),
    [
        ("3.3.1", ">=3.20.2", "7.36.2", ("ok", "")),
        ("3.3.1", ">=3.20.2", "3.19.6", ("problem", "040")),
        ("2.4.2", "<=3.20.0,>=3.1.0", "4.25.0", ("problem", "040")),
        ("2.2.2", ">=3.1.0", "4.21.0", ("problem", "041")),
        ("2.2.2", ">=3.1.0", "3.20.3", ("ok", "")),
        ("", "", "7.36.2", ("ok", "")),
    ],
)
def test_protobuf_beside_paddle(paddle: str, required: str, protobuf: str, expected: tuple[str, str]) -> None:
    found = facts.ProtobufFacts(
        version=protobuf, imported=protobuf, copies=("/site/google/protobuf",), paddle=paddle, required=required
    )
    assert told(frameworks.protobuf(found, ALONE)) == [expected]


def test_a_protobuf_in_pure_python_is_slow() -> None:
    found = facts.ProtobufFacts(version="7.1", imported="7.1", copies=("/a",), implementation="python")
    assert told(frameworks.protobuf(found, ALONE)) == [("warning", "044")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("ok", "")),
        ({"ready": False}, ("skipped", "")),
        ({"sums": (1.0, 3.0)}, ("problem", "051")),
        ({"trial": replace(IMPORTED, status=1)}, ("problem", "050")),
        ({"trial": replace(IMPORTED, status=None)}, ("problem", "052")),
    ],
)
def test_a_collective(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    found = facts.CollectiveFacts(
        framework="paddle", backend="nccl", ready=True, trial=IMPORTED, sums=(3.0, 3.0), expected=3.0
    )
    assert told(frameworks.paddle_collective(replace(found, **changes), ALONE)) == [expected]


@pytest.mark.parametrize(
    ("version", "wanted", "is_met"),
    [
        ("3.20.2", ">=3.20.2", True),
        ("3.20", ">=3.20.0", True),
        ("3.20.2rc1", ">=3.20.2", False),
        ("3.20.2rc1", ">=3.20.2rc1", True),
        ("3.20.2.post1", ">=3.20.2", True),
        ("3.20.2+cu12", "==3.20.2", True),
        ("3.19.9", ">=3.20", False),
        ("7.0.0rc1", "<7", False),
        ("4.21.0", "!=4.21.0,>=3", False),
        ("4.21.5", "!=4.21.*", False),
        ("4.21.5", "==4.21.*", True),
        ("4.25", "~=4.21", True),
        ("5.0", "~=4.21", False),
        ("5.0", "of any kind", True),
    ],
)
def test_versions(version: str, wanted: str, *, is_met: bool) -> None:
    assert satisfies(version, wanted) is is_met


def test_words() -> None:
    assert release("3.20.2+cu126") == (3, 20, 2)
    assert release("unknown") == ()
    assert [size(each) for each in (12, 64 << 20, 1536 << 20)] == ["12 B", "64 MiB", "1.5 GiB"]


# ---- devices


@pytest.mark.parametrize(
    ("kinds", "kind", "ids", "variables", "chosen_ones", "expected"),
    [
        ({"gpu": 4}, "gpu", "0123", {}, None, [("ok", "")]),
        ({}, "", "", {}, None, [("ok", "")]),
        ({"gpu": 4}, "", "", {"CUDA_VISIBLE_DEVICES": ""}, None, [("warning", "060")]),
        ({"gpu": 4}, "gpu", "26", {"CUDA_VISIBLE_DEVICES": "2,6"}, None, [("problem", "061")]),
        ({"gpu": 4}, "gpu", "22", {"CUDA_VISIBLE_DEVICES": "2,2"}, None, [("problem", "066")]),
        ({"gpu": 4}, "gpu", "0123", {"CUDA_VISIBLE_DEVICES": "all"}, None, [("ok", "")]),
        ({"gpu": 4}, "gpu", ("GPU-8f6d",), {"CUDA_VISIBLE_DEVICES": "GPU-8f6d"}, None, [("ok", "")]),
        (
            {"npu": 8},
            "npu",
            "01",
            {"ASCEND_RT_VISIBLE_DEVICES": "0,1", "NPU_VISIBLE_DEVICES": "2,3"},
            None,
            [("problem", "062")],
        ),
        (
            {"dcu": 4},
            "dcu",
            "0",
            {"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0,1"},
            None,
            [("problem", "062")],
        ),
        (
            {"gpu": 4},
            "gpu",
            "23",
            {"CUDA_VISIBLE_DEVICES": "2,3", "FLAGS_selected_gpus": "2"},
            None,
            [("problem", "063")],
        ),
        ({"gpu": 4}, "gpu", "0123", {"FLAGS_selected_gpus": "2"}, None, [("warning", "063")]),
        ({"npu": 4}, "npu", "0123", {"FLAGS_selected_gpus": "0"}, None, [("problem", "063")]),
        ({"gpu": 4}, "gpu", "23", {"CUDA_VISIBLE_DEVICES": "2,3"}, ("0", "1"), [("problem", "064")]),
        ({"gpu": 4}, "gpu", "23", {"CUDA_VISIBLE_DEVICES": "2,3"}, ("2", "3"), [("ok", "")]),
    ],
)
def test_visibility(
    kinds: dict[str, int],
    kind: str,
    ids: str,
    variables: dict[str, str],
    chosen_ones: tuple[str, ...] | None,
    expected: list[tuple[str, str]],
) -> None:
    found = facts.DeviceFacts(kinds=kinds, kind=kind, ids=tuple(ids), variables=variables)
    assert told(machine.devices(found, replace(ALONE, devices=chosen_ones))) == expected


def test_devices_that_nobody_may_open_and_a_driver_that_is_gone() -> None:
    found = facts.DeviceFacts(kinds={"gpu": 1}, closed=("/dev/nvidia0",), tool="nvidia-smi", tool_error="no driver")
    assert told(machine.devices(found, ALONE)) == [("problem", "067"), ("problem", "065")]


# ---- network


def test_ports_that_may_be_lost_to_the_kernel_or_belong_to_root() -> None:
    named = (
        facts.PortFacts(number=80, purpose="master", error="Permission denied"),
        facts.PortFacts(number=40000, purpose="worker 0"),
    )
    found = facts.PortsFacts(named=named, first=20000, last=32767, free=3, ephemeral_first=32768, ephemeral_last=60999)
    assert told(network.ports(found, ALONE)) == [("problem", "073"), ("warning", "072"), ("problem", "071")]


ADDRESS = facts.AddressFacts(
    announced="10.0.0.2",
    reason="the way out",
    interface="eth0",
    answers=True,
    own=("10.0.0.2",),
    hostname="node1",
    name_means="10.0.0.2",
    interfaces=("lo", "eth0"),
)


@pytest.mark.parametrize(
    ("changes", "job", "expected"),
    [
        ({}, OF_TWO, ("ok", "")),
        ({"name_means": "127.0.1.1"}, OF_TWO, ("warning", "082")),
        ({"name_means": "127.0.1.1"}, ALONE, ("ok", "")),
        ({"name_means": ""}, OF_TWO, ("warning", "085")),
        ({"announced": "127.0.0.1"}, OF_TWO, ("problem", "080")),
        ({"announced": "127.0.0.1"}, ALONE, ("ok", "")),
        ({"answers": False, "error": "timed out"}, ALONE, ("problem", "081")),
        ({"announced": "10.9.9.9"}, replace(ALONE, host="10.9.9.9"), ("problem", "083")),
        ({"interface_variables": {"NCCL_SOCKET_IFNAME": "ib0"}}, ALONE, ("problem", "084")),
        ({"interface_variables": {"NCCL_SOCKET_IFNAME": "eth"}}, ALONE, ("ok", "")),
        ({"interface_variables": {"NCCL_SOCKET_IFNAME": "^docker0"}}, ALONE, ("ok", "")),
    ],
)
def test_an_address(changes: dict[str, Any], job: DoctorRequest, expected: tuple[str, str]) -> None:
    assert told(network.address(replace(ADDRESS, **changes), job)) == [expected]


def test_names_of_hosts() -> None:
    hosts = (
        facts.NamedHostFacts(name="a", address="10.0.0.1"),
        facts.NamedHostFacts(name="b", error="Name or service not known"),
        facts.NamedHostFacts(name="c", address="127.0.1.1"),
        facts.NamedHostFacts(name="d", address="10.0.0.4", took_s=5.0),
        facts.NamedHostFacts(name="e", address="10.0.0.5", has_route=False),
    )
    codes = [("problem", "090"), ("problem", "091"), ("warning", "092"), ("problem", "093")]
    assert told(network.dns(facts.DnsFacts(hosts=hosts), ALONE)) == codes
    assert told(network.dns(facts.DnsFacts(hosts=hosts[:1]), ALONE)) == [("ok", "")]
    assert told(network.dns(facts.DnsFacts(hosts=()), ALONE)) == [("skipped", "")]


@pytest.mark.parametrize(
    ("ahead_s", "expected"), [(0.4, "ok"), (-2.4, "ok"), (3.0, "warning"), (-40.0, "problem"), (86400.0, "problem")]
)
def test_clocks(ahead_s: float, expected: str) -> None:
    skew = facts.ClockSkew(source="etcd at a:2379", ahead_s=ahead_s, uncertainty_s=0.5)
    (finding,) = network.clock(facts.ClockFacts(now_s=1e9, installed_s=1e9 - 5, others=(skew,)), ALONE)
    assert finding.verdict.value == expected
    assert ("behind" in finding.reason) is (ahead_s == -40.0)


def test_a_clock_before_the_installation() -> None:
    assert told(network.clock(facts.ClockFacts(now_s=0, installed_s=1e9), ALONE)) == [("problem", "101")]


@pytest.mark.parametrize(
    ("variables", "targets", "codes"),
    [
        ({}, ("10.0.0.1",), [""]),
        ({"no_proxy": "x"}, (), [""]),
        ({"http_proxy": "http://p:3128"}, (), ["110"]),
        ({"http_proxy": "http://p:3128", "no_proxy": "localhost,127.0.0.1"}, (), [""]),
        ({"http_proxy": "http://p:3128", "no_proxy": "localhost,127.0.0.0/8,10.0.0.0/8"}, ("10.1.2.3",), [""]),
        ({"http_proxy": "http://p:3128", "no_proxy": "localhost,127.0.0.1,.lab"}, ("a.lab", "10.1.2.3"), ["111"]),
        ({"http_proxy": "http://p:3128", "no_proxy": "localhost,127.0.0.1,fd00::/8"}, ("fd00::1",), [""]),
        ({"http_proxy": "http://p:3128", "no_proxy": "localhost,127.0.0.1,fd00::/8,10.0.0.0/8"}, ("fe80::1",), ["111"]),
        ({"ALL_PROXY": "socks5://p:1080", "NO_PROXY": "*"}, ("10.1.2.3",), [""]),
        ({"http_proxy": "http://p:1", "HTTP_PROXY": "http://q:1", "no_proxy": "*"}, (), ["112"]),
        ({"https_proxy": "http://p:port", "no_proxy": "*"}, (), ["113"]),
    ],
)
def test_proxies(variables: dict[str, str], targets: tuple[str, ...], codes: list[str]) -> None:
    findings = network.proxy(facts.ProxyFacts(variables=variables, targets=targets), ALONE)
    assert [code for _, code in told(findings)] == codes


# ---- the machine, etcd, places


@pytest.mark.parametrize(
    ("total", "free", "expected"),
    [
        (64 << 20, 64 << 20, "problem"),
        (256 << 20, 200 << 20, "warning"),
        (8 << 30, 100, "warning"),
        (8 << 30, 8 << 30, "ok"),
    ],
)
def test_shared_memory(total: int, free: int, expected: str) -> None:
    found = facts.ShmFacts(exists=True, writable=True, total_bytes=total, free_bytes=free)
    assert [each.verdict.value for each in machine.shm(found, ALONE)] == [expected]


def test_no_shared_memory() -> None:
    assert told(machine.shm(facts.ShmFacts(exists=False), ALONE)) == [("problem", "120")]
    assert told(machine.shm(facts.ShmFacts(exists=True), ALONE)) == [("problem", "120")]


def test_limits() -> None:
    plenty = facts.LimitFacts(open_files=None, most_open_files=None, locked_bytes=65536, processes=None)
    assert told(machine.limits(plenty, ALONE)) == [("ok", "")]
    assert told(machine.limits(replace(plenty, rdma=("mlx5_0",)), ALONE)) == [("problem", "131")]
    assert told(machine.limits(replace(plenty, processes=512), ALONE)) == [("warning", "132")]
    assert told(machine.limits(replace(plenty, tasks=600, tasks_now=200), ALONE)) == [("warning", "133")]
    few = replace(plenty, open_files=1024, most_open_files=4096)
    assert told(machine.limits(few, ALONE)) == [("ok", "")]
    (finding,) = machine.limits(few, replace(ALONE, workers=8, most_nodes=64))
    assert finding.hint == "`ulimit -n 2304`"


def test_etcd() -> None:
    good = facts.EtcdEndpointFacts(endpoint="a:2379", version="3.5.1", healthy=True, latency_s=0.002)
    bad = facts.EtcdEndpointFacts(endpoint="b:2379", error="Connection refused")

    def codes(*endpoints: facts.EtcdEndpointFacts, write_error: str = "") -> list[tuple[str, str]]:
        return told(cluster.etcd(facts.EtcdFacts(endpoints=endpoints, write_error=write_error), ALONE))

    assert codes() == [("skipped", "")]
    assert codes(good) == [("ok", "")]
    assert codes(bad) == [("problem", "140")]
    assert codes(good, bad) == [("warning", "141")]
    assert codes(replace(good, version="3.3.27")) == [("problem", "142")]
    assert codes(replace(good, latency_s=0.4)) == [("warning", "143")]
    assert codes(replace(good, healthy=False)) == [("problem", "145")]
    assert codes(good, write_error="etcdserver: permission denied") == [("problem", "144")]


def test_elastic() -> None:
    free = facts.ElasticFacts()
    elastic = replace(ALONE, least_nodes=2, most_nodes=4, job_id="ctr", etcd=(("a", 2379),))
    assert told(cluster.elastic(free, OF_TWO)) == [("skipped", "")]
    assert told(cluster.elastic(free, elastic)) == [("ok", "")]
    assert told(cluster.elastic(free, replace(elastic, least_nodes=4, elastic_level=1))) == [("problem", "150")]
    assert told(cluster.elastic(free, replace(elastic, job_id="default"))) == [("warning", "151")]
    assert told(cluster.elastic(facts.ElasticFacts(master_of_job="a:1"), elastic)) == [("warning", "152")]
    assert told(cluster.elastic(free, replace(elastic, elastic_timeout_s=3600))) == [("warning", "153")]
    assert told(cluster.elastic(free, replace(elastic, max_restart=0))) == [("warning", "154")]


def test_an_installation() -> None:
    one = facts.InstallFacts(version="1.0", python="3.11.7", location="/a/umiak", native_version="1.0")
    assert told(installation.install(one, ALONE)) == [("ok", "")]
    assert told(installation.install(replace(one, native_version=""), ALONE)) == [("ok", "")]
    assert told(installation.install(replace(one, native_version="0.9"), ALONE)) == [("problem", "011")]
    assert told(installation.install(replace(one, native_error="ImportError: no"), ALONE)) == [("problem", "010")]


def test_a_place_speaks_in_its_own_codes() -> None:
    bad = Problem(code="UM-SSH-004", what="no answer from 10.0.0.3", why="timed out", hint="ping 10.0.0.3")
    found = facts.PlaceFacts(
        name="lab",
        backend="ssh",
        findings=(facts.PlaceFinding(text="10.0.0.1: 12 ms"), facts.PlaceFinding(problem=bad)),
    )
    first, second = machine.place(found, ALONE)
    assert (first.verdict, first.code, first.reason) == (
        DoctorVerdict.PROBLEM,
        "UM-SSH-004",
        "no answer from 10.0.0.3: timed out",
    )
    assert (second.verdict, second.reason) == (DoctorVerdict.OK, "10.0.0.1: 12 ms")
    assert told(machine.place(facts.PlaceFacts(known=("local",)), ALONE)) == [("skipped", "")]
    assert told(machine.place(replace(found, findings=()), ALONE)) == [("ok", "")]


# ---- reports

STORY = """\
ok       install    umiak 1.0, native core, Python 3.11.7
problem  shm        64 MiB at /dev/shm, 64 MiB of it free: data loaders end with a bus error [UM-DOCTOR-121]
                    hint: docker run --shm-size 8g
warning  proxy      http_proxy would catch requests to localhost [UM-DOCTOR-110]
                    hint: export no_proxy=localhost
ok                  the rest
skipped  etcd       no etcd was named

1 problem: shm; 1 warning: proxy; 1 ok, 1 skipped
"""


def reports() -> list[CheckReport]:
    found = {
        "install": (ok("umiak 1.0, native core, Python 3.11.7"),),
        "shm": (
            problem(
                "UM-DOCTOR-121",
                "64 MiB at /dev/shm, 64 MiB of it free: data loaders end with a bus error",
                "docker run --shm-size 8g",
            ),
        ),
        "proxy": (
            ok("the rest"),
            warning("UM-DOCTOR-110", "http_proxy would catch requests to localhost", "export no_proxy=localhost"),
        ),
        "etcd": (skipped("no etcd was named", "umiak doctor --master etcd://HOST:2379"),),
    }
    return [CheckReport(name=name, group="x", findings=findings) for name, findings in found.items()]


def test_the_table_and_the_conclusion() -> None:
    checks = [DoctorCheck(name=name, group="x", about="", facts="", judge="") for name in ("install", "shm_or_so")]
    lines = [word + rest for each in reports() for word, rest in report.rows(each, checks)]
    assert "\n".join([*lines, "", report.conclusion(reports()), ""]) == STORY
    assert report.conclusion(reports()[:1]) == "no problems: 1 ok"
    assert report.conclusion(reports()[2:]) == "no problems, 1 warning: proxy; 1 skipped"


def test_the_data_for_programs() -> None:
    data = json.loads(json.dumps(report.as_data(reports(), "1.0")))
    assert data["healthy"] is False
    assert [each["verdict"] for each in data["checks"]] == ["ok", "problem", "warning", "skipped"]
    assert data["checks"][1]["findings"][0]["code"] == "UM-DOCTOR-121"


# ---- running


def measured(request: DoctorRequest, _limit_s: float) -> facts.ShmFacts:
    return facts.ShmFacts(exists=True, total_bytes=len(request.directory))


def measured_later(_asked: DoctorRequest, _limit_s: float, before: CheckReport | None) -> facts.ShmFacts:
    assert before is not None
    return facts.ShmFacts(exists=True, total_bytes=before.facts["total_bytes"] + 1)  # type: ignore[index]


def hangs(_asked: DoctorRequest, _limit_s: float) -> None:
    threading.Event().wait()


def fails(_asked: DoctorRequest, _limit_s: float) -> None:
    raise ValueError("unheard of")


def judged(found: facts.ShmFacts, _asked: DoctorRequest) -> list[Any]:
    return [ok(f"{found.total_bytes} bytes")]


def check(name: str, function: Any, *, after: str = "") -> DoctorCheck:
    here = __name__
    return DoctorCheck(
        name=name, group="x", about="", facts=f"{here}:{function.__name__}", judge=f"{here}:judged", after=after
    )


def test_checks_that_hang_or_fail_do_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LATE_S", 0.0)
    monkeypatch.setattr(running, "_find", lambda place: globals()[place.partition(":")[2]])
    checks = [check("second", measured_later, after="first"), check("bad", fails), check("slow", hangs)]
    found = running.run([*checks, check("first", measured)], ALONE, limit_s=0.2)
    by_name = {each.name: each for each in found}
    assert by_name["second"].findings[0].reason == "6 bytes"
    assert by_name["first"].facts == {"exists": True, "writable": False, "total_bytes": 5, "free_bytes": 0}
    assert told(by_name["slow"].findings) == [("problem", "002")]
    assert told(by_name["bad"].findings) == [("problem", "003")]
    assert "ValueError: unheard of" in by_name["bad"].findings[0].reason


def test_the_table_of_checks_is_whole() -> None:
    for each in CHECKS:
        assert callable(running._find(each.facts))
        assert callable(running._find(each.judge))
    assert chosen(()) == CHECKS
    assert [each.name for each in chosen(("paddle_collective", "machine"))] == [
        "paddle",
        "paddle_collective",
        "shm",
        "limits",
    ]


# ---- the command line


def asked_for(*argv: str, **environ: str) -> DoctorRequest:
    return command.read(command_line.parse(FLAGS, argv, environ, starts_program=False), environ)[1]


def test_flags_of_a_launch_say_what_the_job_uses() -> None:
    request = asked_for("--nnodes", "2:4", "--master", "etcd://a,b:99", PADDLE_JOB_ID="ctr")
    assert (request.least_nodes, request.most_nodes, request.job_id) == (2, 4, "ctr")
    assert request.etcd == (("a", 2379), ("b", 99))
    assert request.remote_hosts == ("a", "b")
    request = asked_for("--ips", "10.0.0.1,10.0.0.2", "--start_port", "6170", "--nproc_per_node", "8", "--gpus", "0,1")
    assert (request.most_nodes, request.start_port, request.workers, request.devices) == (2, 6170, 8, ("0", "1"))
    assert asked_for("--master", "10.0.0.1:80").master == ("10.0.0.1", 80)
    assert asked_for().has_other_nodes is False


def test_a_wrong_command_line_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["doctor", "--only", "shn", "--master", "10.0.0.1", "--nnodes", "x"]) == 2
    said = capsys.readouterr().err
    assert "--only: unknown check: shn [UM-DOCTOR-001]" in said
    assert "did you mean `shm`" in said
    assert "no port: --master 10.0.0.1 [UM-CLI-003]" in said
    assert "not a number of nodes: --nnodes x" in said
    with pytest.raises(UmiakError):
        asked_for("--devices", ",,")

"""What a check finds in reports, and how it is told: no sockets, no clocks, only values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from umiak.core.cluster import Role
from umiak.core.value import replace
from umiak.launch.preflight import table
from umiak.launch.preflight.examination import BadPair, Examination, Finding, Level, Verdict
from umiak.launch.preflight.messages import Facts, Probed, Report, Unreachable
from umiak.launch.preflight.verdict import judge

GIB = 1024**3

FACTS = Facts(
    hostname="",
    own_address="10.0.0.9",
    umiak="0.1.0",
    python="3.11.7",
    frameworks={"paddle": "3.3.1"},
    device_kind="gpu",
    device_count=8,
    program="train.py",
    program_hash="aaaaaaaa11111111",
    log_dir="/job/log",
    log_writable=True,
    log_free_bytes=100 * GIB,
    shm_bytes=8 * GIB,
    open_files=65536,
    token=True,
)


def report(number: int, *, role: Role = Role.TRAINER, rank: int | None = None, **more: Any) -> Report:
    """From node ``number`` at 10.0.0.<number + 1>, with ordinary facts; keywords change the report or its facts."""
    host = f"10.0.0.{number + 1}"
    in_facts = {name: more.pop(name) for name in tuple(more) if name in Facts.__match_args__}
    made = Report(
        node=f"n{number}",
        node_rank=number,
        host=host,
        role=role,
        rank=number if rank is None else rank,
        doors=(f"{host}:2300{number}",),
        clock_offset_s=0.0,
        round_trip_s=0.0002,
        facts=replace(FACTS, **{"hostname": f"host{number}", **in_facts}),
    )
    return replace(made, **more)


def examine(*reports: Report, endpoints: dict[Role, tuple[str, ...]] | None = None, **bad: list[str]) -> Examination:
    """An examination in which every node tried two connections to each other; ``n1=["10.0.0.3:1 timed out"]`` failed."""
    by_role: dict[Role, tuple[str, ...]] = {}
    for each in reports:
        by_role[each.role] = (*by_role.get(each.role, ()), *each.doors[:1])
    nodes = {each.node for each in reports if each.facts}
    probed = {}
    for node in nodes:
        failed = [text.partition(" ") for text in bad.get(node, [])]
        probed[node] = Probed(
            tried=2 * (len(nodes) - 1),
            failed=len(failed),
            unreachable=tuple(Unreachable(endpoint=endpoint, why=why) for endpoint, _, why in failed),
        )
    return Examination(
        endpoints=by_role if endpoints is None else endpoints,
        collector="10.0.0.1:20000",
        reports=reports,
        probed=probed,
        waited_s=20.0,
    )


def verdict(*reports: Report, **more: Any) -> Verdict:
    return judge(examine(*reports, **more))


def told(judged: Verdict) -> list[tuple[str, str, str]]:
    return [(finding.level.value, finding.code, finding.what) for finding in judged.findings]


# ---- good nodes


def test_nodes_that_are_fit() -> None:
    judged = verdict(report(0), report(1), report(2))
    assert judged.ready
    assert (judged.findings, judged.pairs, judged.absent) == ((), (), ())
    assert (judged.tried, judged.failed) == (12, 0)
    assert table.as_text(judged) == (
        "node  host      name   Python  umiak  frameworks    devices  clock    program\n"
        "0     10.0.0.1  host0  3.11.7  0.1.0  paddle 3.3.1  8 gpu    +0.0 ms  aaaaaaaa\n"
        "1     10.0.0.2  host1  3.11.7  0.1.0  paddle 3.3.1  8 gpu    +0.0 ms  aaaaaaaa\n"
        "2     10.0.0.3  host2  3.11.7  0.1.0  paddle 3.3.1  8 gpu    +0.0 ms  aaaaaaaa\n"
        "\n"
        "all 12 connections work\n"
        "\n"
        "verdict: ready\n"
    )


def test_one_node_needs_no_network_and_no_token() -> None:
    judged = verdict(report(0, token=False, own_address="127.0.1.1"))
    assert judged.ready
    assert judged.findings == ()
    assert "one node, no connections to try\n" in table.as_text(judged)


def test_two_launchers_on_one_host_are_told_apart() -> None:
    judged = verdict(report(0), report(1, host="10.0.0.1", python="3.10.1"))
    assert told(judged) == [
        (
            "error",
            "UM-CHECK-105",
            "different versions of Python: 3.11.7 on 10.0.0.1 (node 0); 3.10.1 on 10.0.0.1 (node 1)",
        )
    ]


def test_a_nodes_later_workers_add_no_row() -> None:
    more = report(0, rank=1, doors=("10.0.0.1:23010",), facts=None)
    judged = judge(examine(report(0), more))
    assert len(judged.rows) == 1
    assert judged.ready


# ---- connections


def test_a_pair_that_is_cut_is_named_both_ways() -> None:
    judged = verdict(
        report(0),
        report(1),
        report(2),
        n1=["10.0.0.3:23002 timed out", "10.0.0.3:23012 timed out"],
        n2=["10.0.0.2:23001 timed out"],
    )
    assert [str(pair) for pair in judged.pairs] == [
        "10.0.0.2 -> 10.0.0.3:23002,23012: timed out",
        "10.0.0.3 -> 10.0.0.2:23001: timed out",
    ]
    assert (judged.tried, judged.failed, judged.problems, judged.ready) == (12, 3, 2, False)
    text = table.as_text(judged)
    assert "9 of 12 connections work; these do not:\n  10.0.0.2 -> 10.0.0.3:23002,23012: timed out\n" in text
    assert text.endswith("verdict: not ready, 2 problems\n")


def test_ports_with_different_troubles_are_told_apart() -> None:
    judged = verdict(report(0), report(1), n0=["10.0.0.2:1 timed out", "10.0.0.2:2 refused"])
    assert [str(pair) for pair in judged.pairs] == [
        "10.0.0.1 -> 10.0.0.2:1: timed out",
        "10.0.0.1 -> 10.0.0.2:2: refused",
    ]


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert (
        str(BadPair(source="fd00::1", host="fd00::2", ports=(1, 2), why="refused"))
        == "fd00::1 -> [fd00::2]:1,2: refused"
    )


@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        ({"n0": ["10.0.0.3:1 timed out"]}, "packets get lost"),
        ({"n0": ["10.0.0.3:1 refused"]}, "check that every --host"),
        ({"n0": ["10.0.0.3:1 timed out"], "n1": ["10.0.0.3:1 timed out"]}, "several nodes can't reach 10.0.0.3"),
    ],
)
def test_the_hint_fits_the_trouble(bad: dict[str, list[str]], hint: str) -> None:
    assert hint in table.as_text(verdict(report(0), report(1), report(2), **bad))


def test_very_many_bad_pairs_are_counted() -> None:
    reports = [report(number) for number in range(60)]
    bad = {f"n{number}": ["10.0.0.1:1 timed out"] for number in range(1, 60)}
    judged = verdict(*reports, **bad)
    text = table.as_text(judged)
    assert text.count(" -> ") == table.MOST_LINES
    assert "and 19 more pairs" in text
    assert len(table.as_plain(judged)["connections"]["pairs"]) == 59


# ---- who is missing


def test_a_host_that_did_not_report_is_named() -> None:
    endpoints = {Role.SERVER: ("10.0.0.3:6000",), Role.TRAINER: ("10.0.0.1:23000", "10.0.0.2:23001", "10.0.0.3:23002")}
    judged = verdict(report(0), report(1), endpoints=endpoints)
    assert told(judged) == [("error", "UM-CHECK-101", "no report from 10.0.0.3 within 20 s: server 0, trainer 2")]
    assert "10.0.0.1:20000" in str(judged.findings[0].hint)
    assert judged.absent == ("10.0.0.3",)
    assert "\n?     10.0.0.3  did not report\n" in table.as_text(judged)


def test_a_worker_that_did_not_report_does_not_make_its_host_absent() -> None:
    judged = verdict(report(0), endpoints={Role.TRAINER: ("10.0.0.1:23000", "10.0.0.1:23001")})
    assert told(judged) == [("error", "UM-CHECK-101", "no report from 10.0.0.1 within 20 s: trainer 1")]
    assert judged.absent == ()


def test_a_node_that_never_told_how_its_connections_went() -> None:
    exam = examine(report(0), report(1))
    judged = judge(replace(exam, probed={"n0": exam.probed["n0"]}))
    assert told(judged) == [
        ("error", "UM-CHECK-102", "no answer about the connections to the other nodes from: 10.0.0.2")
    ]


def test_nobody_at_all() -> None:
    judged = verdict(endpoints={Role.TRAINER: ("10.0.0.1:23000",)})
    assert not judged.ready
    assert table.as_text(judged).startswith("node  host ")


def test_two_nodes_that_claim_one_address() -> None:
    docker = "172.17.0.1:6070"
    judged = verdict(report(0), report(1), endpoints={Role.TRAINER: (docker, docker)})
    assert ("error", "UM-CHECK-103", f"several workers have the same address: {docker}") in told(judged)


# ---- what differs

ON_ONE = "on 10.0.0.1, 10.0.0.2; {} on 10.0.0.3"


@pytest.mark.parametrize(
    ("facts", "level", "code", "what"),
    [
        ({"umiak": "0.2.0"}, "error", "UM-CHECK-104", "different versions of umiak: 0.1.0 " + ON_ONE.format("0.2.0")),
        ({"umiak": "0.1.3"}, "warning", "UM-CHECK-104", "different versions of umiak: 0.1.0 " + ON_ONE.format("0.1.3")),
        (
            {"python": "3.12.7"},
            "error",
            "UM-CHECK-105",
            "different versions of Python: 3.11.7 " + ON_ONE.format("3.12.7"),
        ),
        (
            {"python": "3.11.9"},
            "warning",
            "UM-CHECK-105",
            "different versions of Python: 3.11.7 " + ON_ONE.format("3.11.9"),
        ),
        (
            {"frameworks": {"paddle": "3.2.0"}},
            "error",
            "UM-CHECK-106",
            "different versions of paddle: 3.3.1 " + ON_ONE.format("3.2.0"),
        ),
        (
            {"frameworks": {"paddle": "3.3.1+gpu"}},
            "warning",
            "UM-CHECK-106",
            "different versions of paddle: 3.3.1 " + ON_ONE.format("3.3.1+gpu"),
        ),
        ({"frameworks": {}}, "error", "UM-CHECK-106", "different versions of paddle: 3.3.1 " + ON_ONE.format("none")),
        (
            {"program_hash": "bbbbbbbb22222222"},
            "error",
            "UM-CHECK-108",
            "the contents of train.py differ: aaaaaaaa " + ON_ONE.format("bbbbbbbb"),
        ),
        ({"program_hash": ""}, "error", "UM-CHECK-107", "there is no train.py on: 10.0.0.3"),
        (
            {"device_count": 4},
            "warning",
            "UM-CHECK-201",
            "the nodes have different devices: 8 gpu " + ON_ONE.format("4 gpu"),
        ),
        (
            {"device_kind": "", "device_count": 0},
            "warning",
            "UM-CHECK-201",
            "the nodes have different devices: 8 gpu " + ON_ONE.format("none"),
        ),
        ({"log_writable": False}, "error", "UM-CHECK-110", "the log directory can't be written: 10.0.0.3:/job/log"),
        ({"log_free_bytes": 5 * 1024**2}, "warning", "UM-CHECK-202", "little room for logs: 10.0.0.3 (5 MiB)"),
        (
            {"shm_bytes": 64 * 1024**2},
            "warning",
            "UM-CHECK-203",
            "little room in /dev/shm, which data loaders use: 10.0.0.3 (64 MiB)",
        ),
        ({"open_files": 256}, "warning", "UM-CHECK-204", "few open files are allowed: 10.0.0.3 (256)"),
        ({"own_address": ""}, "warning", "UM-CHECK-205", "a node does not know its own host name: 10.0.0.3 (host2)"),
        (
            {"own_address": "127.0.1.1"},
            "warning",
            "UM-CHECK-205",
            "a node's own host name means loopback there, where others can't reach it: 10.0.0.3 (host2)",
        ),
    ],
)
def test_one_node_differs(facts: dict[str, Any], level: str, code: str, what: str) -> None:
    judged = verdict(report(0), report(1), report(2, **facts))
    assert told(judged) == [(level, code, what)]
    assert judged.ready == (level == "warning")
    assert judged.findings[0].hint
    assert f"{level}: {what} [{code}]\n  hint: " in table.as_text(judged)


def test_a_script_that_nobody_has_is_no_difference() -> None:
    judged = verdict(report(0, program_hash=""), report(1, program_hash=""))
    assert told(judged) == [("error", "UM-CHECK-107", "there is no train.py on: 10.0.0.1, 10.0.0.2")]
    assert " missing\n" in table.as_text(judged)


def test_without_a_script_nothing_is_compared() -> None:
    judged = verdict(report(0, program="", program_hash=""), report(1, program="", program_hash=""))
    assert judged.ready
    assert table.as_text(judged).splitlines()[1].endswith(" -")


def test_no_shared_memory_at_all_is_not_little() -> None:
    assert verdict(report(0, shm_bytes=-1)).findings == ()


def test_a_large_job_needs_many_open_files() -> None:
    reports = [report(number, open_files=1024) for number in range(200)]
    judged = verdict(*reports)
    assert [finding.code for finding in judged.findings] == ["UM-CHECK-204"]
    assert judged.findings[0].what.endswith(
        ": 10.0.0.1 (1024), 10.0.0.2 (1024), 10.0.0.3 (1024), 10.0.0.4 (1024) and 196 more"
    )
    assert "ulimit -n 1056" in str(judged.findings[0].hint)


def test_no_token_is_told_once() -> None:
    judged = verdict(report(0, token=False), report(1, token=False))
    assert [(finding.level, finding.code) for finding in judged.findings] == [(Level.WARNING, "UM-CHECK-206")]


def test_nodes_with_servers_only_need_no_devices() -> None:
    servers = report(0, role=Role.SERVER, rank=0, device_kind="", device_count=0)
    trainers = [report(1, rank=0), report(2, rank=1)]
    assert verdict(servers, *trainers).findings == ()


# ---- clocks


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ((0.0, 0.001, -1.9), []),
        ((0.0, 0.5, 2.5), []),
        ((0.0, 0.0, 3.0), [("warning", "the clock of 10.0.0.3 is 3.0 s ahead of the others'")]),
        ((0.0, 0.0, -45.0), [("error", "the clock of 10.0.0.3 is 45.0 s behind the others'")]),
        # The collector's own clock is the wrong one: everybody else seems to be off.
        ((0.0, 60.0, 60.1), [("error", "the clock of 10.0.0.1 is 60.0 s behind the others'")]),
        ((0.0, 30.5), [("error", "the clock of 10.0.0.2 is 30.5 s ahead of that of 10.0.0.1")]),
        ((0.0,), []),
    ],
)
def test_clocks(offsets: tuple[float, ...], expected: list[tuple[str, str]]) -> None:
    judged = verdict(*(report(number, clock_offset_s=offset) for number, offset in enumerate(offsets)))
    assert [(finding.level.value, finding.what) for finding in judged.findings] == expected
    assert {finding.code for finding in judged.findings} <= {"UM-CHECK-109"}


def test_a_slow_answer_excuses_a_clock() -> None:
    assert verdict(report(0), report(1, clock_offset_s=3.0, round_trip_s=2.5)).findings == ()


@pytest.mark.parametrize(
    ("skew_s", "shown"), [(0.0, "+0.0 ms"), (-0.0123, "-12.3 ms"), (1.5, "+1.5 s"), (-90, "-90.0 s")]
)
def test_how_a_clock_is_shown(skew_s: float, shown: str) -> None:
    judged = verdict(report(0), report(1), report(2, clock_offset_s=skew_s))
    assert f"  {shown}  " in table.as_text(judged).splitlines()[3]


# ---- how it is told


def test_errors_come_before_warnings_and_the_verdict_counts_both() -> None:
    judged = verdict(report(0), report(1, shm_bytes=0, program_hash="b"), n0=["10.0.0.2:1 refused"])
    assert [finding.level for finding in judged.findings] == [Level.ERROR, Level.WARNING]
    assert table.in_words(judged) == "not ready, 2 problems, 1 warning"


@pytest.mark.parametrize(
    ("judged", "summary"),
    [
        (verdict(report(0), report(1)), "ready: 2 nodes, all 4 connections work"),
        (
            verdict(report(0), report(1), n0=["10.0.0.2:1 refused"]),
            "10.0.0.1 -> 10.0.0.2:1: refused",
        ),
        (
            verdict(report(0), report(1, python="3.9.1"), n0=["10.0.0.2:1 refused"]),
            "10.0.0.1 -> 10.0.0.2:1: refused, and 1 more problem",
        ),
        (verdict(report(0), report(1, program_hash="")), "there is no train.py on: 10.0.0.2"),
    ],
)
def test_one_line_for_the_other_nodes(judged: Verdict, summary: str) -> None:
    assert table.summary(judged) == summary


def test_json_holds_the_same() -> None:
    judged = verdict(report(0), report(1, python="3.9.1", device_kind="", device_count=0), n0=["10.0.0.2:7 refused"])
    plain = json.loads(json.dumps(table.as_plain(judged)))
    assert plain["ready"] is False
    assert plain["verdict"] == "not ready, 2 problems, 1 warning"
    assert [node["python"] for node in plain["nodes"]] == ["3.11.7", "3.9.1"]
    assert plain["nodes"][0]["devices"] == {"kind": "gpu", "count": 8}
    assert plain["nodes"][1]["devices"] == {"kind": None, "count": 0}
    assert plain["connections"] == {
        "tried": 4,
        "failed": 1,
        "pairs": [{"from": "10.0.0.1", "to": "10.0.0.2", "ports": [7], "why": "refused"}],
    }
    assert [finding["code"] for finding in plain["findings"]] == ["UM-CHECK-105", "UM-CHECK-201"]


def test_nothing_that_came_over_the_network_steers_the_terminal() -> None:
    judged = verdict(
        report(0, hostname="evil\x1b[2J\nverdict: ready"), report(1, python="3\x07.1"), n0=["10.0.0.2:1 \x1b]0;x\x07"]
    )
    text = table.as_text(judged) + table.summary(judged)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count("\nverdict: ") == 1


def test_every_finding_reads_without_colour_and_has_a_code() -> None:
    finding = Finding(level=Level.WARNING, code="UM-CHECK-999", what="something")
    judged = replace(verdict(report(0)), findings=(finding,))
    assert "warning: something [UM-CHECK-999]\nverdict: ready, 1 warning\n" in table.as_text(judged)

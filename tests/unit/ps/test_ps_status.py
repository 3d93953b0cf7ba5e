"""How servers are, put together for a person, a program and Prometheus; and where servers are looked for."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from umiak.core.problem import Problem
from umiak.ps import environment
from umiak.ps.errors import BadRequest
from umiak.ps.servers import discovery, metrics, status
from umiak.ps.servers.status import Look


def latencies(*pulls: tuple[int, int]) -> dict[str, object]:
    none: dict[str, object] = {"counts": [], "seconds": 0.0}
    told = {"counts": [list(pair) for pair in pulls], "seconds": 0.25}
    return {"per_octave": 4, "pulls": told, "pushes": none, "dense_pulls": none, "dense_pushes": none}


def said(server: int = 0, *, pulls: int = 0, life: str = "a", **more: object) -> dict[str, object]:
    counts = ("pulled_rows", "pushes", "pushed_rows", "dense_pulls", "dense_pushes")
    return {
        "job": "ctr",
        "server": server,
        "servers": 2,
        "life": life,
        "up_s": 75.5,
        "step": 7,
        "step_waits_for": [1],
        "requests": 9,
        "connections": 3,
        "traffic": {"pulls": pulls, **dict.fromkeys(counts, 0)},
        "tables": {
            "ads": {"kind": "sparse", "number": 0, "rows": 30_000, "bytes": 2048, "learning_rate": 0.5},
            "dense": {"kind": "dense", "number": 1, "elements": 10, "bytes": 80, "is_set": True, "learning_rate": 0.1},
        },
        "trainers": [
            {"rank": 0, "state": "here", "words": "", "connections": 2, "next": 7, "waits": None},
            {"rank": 1, "state": "lost", "words": "", "connections": 0, "next": 6, "waits": None},
        ],
        "log": None,
        **more,
    }


def test_what_servers_say_is_put_together() -> None:
    waiting = said(1, pulls=30)
    waiting["trainers"][0]["waits"] = "step 7 waits for trainer 1"  # type: ignore[index]
    now = [Look(endpoint="a:1", said=said(pulls=10)), Look(endpoint="b:1", said=waiting)]
    before = [Look(endpoint="a:1", said=said(pulls=4)), Look(endpoint="b:1", said=said(1, pulls=0, life="other"))]
    report = status.report(now, before, 2.0)
    assert (report["job"], report["step"], report["step_waits_for"]) == ("ctr", 7, [1])
    assert [server["pulls_per_s"] for server in report["servers"]] == [3.0, None], "another life has no rate"
    assert [(table["name"], table.get("rows"), table["bytes"]) for table in report["tables"]] == [
        ("ads", 60_000, 4096),
        ("dense", None, 160),
    ]
    assert [trainer["waits"] for trainer in report["trainers"]] == ["step 7 waits for trainer 1", None]
    text = status.text(report)
    assert "job ctr: 2 of 2 servers answer, step 7" in text
    assert "60.0 k" in text
    assert "step 7 waits for trainer 1" in text


def test_latencies_of_servers_add_up_and_differences_are_what_came_between() -> None:
    """Bucket 40 ends at 1.024 ms, 48 at 4.096 ms."""
    before = [Look(endpoint="a:1", said=said(latencies=latencies((40, 90)))), Look(endpoint="b:1", said=said(1))]
    now = [
        Look(endpoint="a:1", said=said(latencies=latencies((40, 90), (48, 10)))),
        Look(endpoint="b:1", said=said(1, life="b", latencies=latencies((0, 100)))),
        Look(endpoint="c:1", why="refused"),
        Look(endpoint="d:1", said=said(2)),
    ]
    report = status.report(now, before, 1.0)
    assert set(report["latencies"]) == {"pulls"}
    assert report["latencies"]["pulls"] == {
        "count": 200,
        "p50_s": 1e-6,
        "p99_s": pytest.approx(4.096e-3),
        "recent": {"count": 10, "p50_s": pytest.approx(4.096e-3), "p99_s": pytest.approx(4.096e-3)},
    }
    assert report["servers"][0]["latencies"]["pulls"]["p50_s"] == pytest.approx(1.024e-3)
    assert report["servers"][1]["latencies"]["pulls"]["recent"] is None, "another life has no difference"
    assert report["servers"][3]["latencies"] == {}, "a server of a version before counts none"
    (line,) = [line for line in status.text(report).splitlines() if line.startswith("pulls")]
    assert line.split() == ["pulls", "200", "1", "us", "4.1", "ms", "10", "4.1", "ms", "4.1", "ms"]
    assert "LATENCY" not in status.text(status.report(before[1:], (), 1.0))


@pytest.mark.parametrize("number", [0, 1, 103, 104, 105])
def test_quantiles_have_an_end(number: int) -> None:
    looks = [Look(endpoint="a:1", said=said(latencies=latencies((number, 1))))]
    (told,) = status.report(looks, (), 1.0)["latencies"].values()
    assert told["p50_s"] == told["p99_s"] == pytest.approx(2 ** (min(number, 104) / 4) / 1e6)


def test_a_server_that_does_not_answer_says_why() -> None:
    looks = [Look(endpoint="a:1", said=said()), Look(endpoint="b:1", why="Connection\x1b[2J refused")]
    report = status.report(looks, looks, 1.0)
    assert report["servers"][1] == {"endpoint": "b:1", "reachable": False, "why": "Connection\x1b[2J refused"}
    text = status.text(report)
    assert "1 of 2 servers answer" in text
    assert "no answer: Connection" in text
    assert "\x1b" not in text, "what others say does not steer a terminal"


def test_a_log_that_failed_is_shown() -> None:
    log = {"bytes": 2 << 20, "failure": None, "snapshot_failure": None, "snapshots": 1}
    for failure, shown in ((None, "2.0 MiB"), ("No space left on device", "failed: No space left")):
        looks = [Look(endpoint="a:1", said=said(log={**log, "failure": failure}))]
        assert shown in status.text(status.report(looks, looks, 1.0))


def test_metrics_are_prometheus_text() -> None:
    log = {"bytes": 5, "failure": "full", "snapshot_failure": None, "snapshots": 1}
    spans = latencies((0, 2), (5, 3), (105, 1))
    text = metrics.text(said(3, pulls=11, log=log, job='a"b\\c\nd', latencies=spans))
    labels = 'job="a\\"b\\\\c\\nd",server="3"'
    lines = text.splitlines()
    assert f"umiak_ps_pull_requests_total{{{labels}}} 11" in lines
    assert f'umiak_ps_rows{{{labels},table="ads"}} 30000' in lines
    assert f'umiak_ps_trainers{{{labels},state="lost"}} 1' in lines
    assert f"umiak_ps_log_failed{{{labels}}} 1" in lines
    assert f"umiak_ps_up_seconds{{{labels}}} 75.5" in lines
    seconds = f'umiak_ps_request_seconds_bucket{{{labels},kind="pulls",le='
    counted = [line.removeprefix(seconds).split("} ") for line in lines if line.startswith(seconds)]
    assert counted[:3] == [['"1e-06"', "2"], ['"2e-06"', "2"], ['"4e-06"', "5"]]
    assert counted[-2:] == [['"67.108864"', "5"], ['"+Inf"', "6"]]
    assert f'umiak_ps_request_seconds_sum{{{labels},kind="pulls"}} 0.25' in lines
    assert f'umiak_ps_request_seconds_count{{{labels},kind="pulls"}} 6' in lines
    assert "request_seconds" not in metrics.text(said())
    assert text.endswith("\n")
    told = {re.sub("_(bucket|sum|count)$", "", line.split("{")[0]) for line in lines if not line.startswith("#")}
    assert told == {*metrics.METRICS}, "every metric is told"
    for name, (kind, _) in metrics.METRICS.items():
        assert lines.index(f"# TYPE {name} {kind}") < next(
            at for at, line in enumerate(lines) if line.startswith((f"{name}{{", f"{name}_bucket{{"))
        )


def test_every_metric_is_in_the_reference() -> None:
    page = ROOT.joinpath("docs", "reference", "ps.md").read_text()
    assert [name for name in metrics.METRICS if f"`{name}" not in page] == []


# ---- where


def environ_of(role: str = "server", **more: str) -> dict[str, str]:
    return {
        "UMIAK_ROLE": role,
        "UMIAK_RANK": "0",
        "UMIAK_SERVERS": "127.0.0.1:5,127.0.0.1:6",
        "PADDLE_TRAINERS_NUM": "2",
        "UMIAK_WORLD_SIZE": "2",
        "UMIAK_JOB_ID": "ctr",
        "UMIAK_TOKEN": "0123456789abcdef",
        **more,
    }


def test_jobs_are_found_by_the_environment_of_their_servers(tmp_path: Path) -> None:
    processes = [
        environ_of(),
        environ_of(UMIAK_RANK="1"),
        environ_of("trainer"),
        {},
        environ_of(UMIAK_SERVERS="nowhere"),
    ]
    for number, environ in enumerate(processes):
        path = tmp_path / str(number)
        path.mkdir()
        (path / "environ").write_bytes(b"\0".join(os.fsencode(f"{name}={text}") for name, text in environ.items()))
    (tmp_path / "self").mkdir()
    found = discovery.jobs(discovery.read_processes(str(tmp_path)))
    assert found == [discovery.JobServers(name="ctr", servers=("127.0.0.1:5", "127.0.0.1:6"), token="0123456789abcdef")]
    assert discovery.read_processes(str(tmp_path / "nothing")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9100", ("127.0.0.1", 9102)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9100", ("0.0.0.0", 9102)),
        ("[::1]:9100", ("::1", 9102)),
    ],
)
def test_where_metrics_are_told(text: str, expected: tuple[str, int]) -> None:
    assert environment.metrics_address(text, "UMIAK_PS_METRICS", 2, has_token=True) == expected
    seat = environment.seat(
        environ_of(UMIAK_SERVERS="127.0.0.1:5,127.0.0.1:6,127.0.0.1:7", UMIAK_RANK="2", UMIAK_PS_METRICS=text)
    )
    assert seat.metrics == expected
    assert environment.seat(environ_of("trainer", UMIAK_PS_METRICS=text)).metrics is None


@pytest.mark.parametrize("text", ["", "here", "65535", "host:", ":", "-1", "9100:9100:1"])
def test_a_place_for_metrics_that_is_none(text: str) -> None:
    found = environment.metrics_address(text, "UMIAK_PS_METRICS", 2, has_token=True)
    assert isinstance(found, Problem)
    assert found.code == "UM-PS-175"


def test_metrics_for_other_machines_need_a_token() -> None:
    found = environment.metrics_address("0.0.0.0:9100", "UMIAK_PS_METRICS", 0, has_token=False)
    assert isinstance(found, Problem)
    environ = environ_of(UMIAK_PS_METRICS="0.0.0.0:9100", UMIAK_TOKEN="")
    with pytest.raises(BadRequest, match=r"need a token.*UM-PS-175"):
        environment.seat(environ)

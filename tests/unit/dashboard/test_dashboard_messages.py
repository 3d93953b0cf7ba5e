"""Requests as they are read, and who may ask for what."""

from __future__ import annotations

import pytest

from umiak.dashboard.http import gate as gates
from umiak.dashboard.http.gate import Gate, GateSettings, wants_page
from umiak.web import guard
from umiak.web.guard import host_name
from umiak.web.messages import HttpRefusal, RequestHead, byte_range, request_head

TOKEN = "t" * 40
SESSION = "s" * 40


def head(line: str = "GET /runs.json HTTP/1.1", **headers: str) -> RequestHead:
    given = {"Host": "localhost:8200", **{name.replace("_", "-"): text for name, text in headers.items()}}
    lines = [line, *(f"{name}: {text}" for name, text in given.items() if text)]
    return request_head(("\r\n".join(lines) + "\r\n\r\n").encode())


def gate(**settings: object) -> Gate:
    return Gate(GateSettings(port=8200, **settings), TOKEN, SESSION)  # type: ignore[arg-type]


def status(request: RequestHead, judge: Gate | None = None) -> int:
    try:
        (judge or gate()).check(request, 100.0)
    except HttpRefusal as refusal:
        return refusal.status
    return 200


def known(**headers: str) -> dict[str, str]:
    return {"Cookie": f"umiak-dashboard-8200={SESSION}", **headers}


# ---- requests


def test_a_request_is_read() -> None:
    found = head("GET /runs/a%20b?q=x+y&q=z&n=%C3%BC HTTP/1.1", Accept="text/html")
    assert (found.method, found.path, found.query["n"], found.keeps_alive) == ("GET", "/runs/a b", "ü", True)
    assert found.query["q"] == "z"
    assert head("GET / HTTP/1.0").keeps_alive is False


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET\r\n\r\n", 400),
        (b"G(T / HTTP/1.1\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nA: \xff\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 65 + b"\r\n", 431),
        (b"GET /?" + b"a=b&" * 60 + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, expected: int) -> None:
    with pytest.raises(HttpRefusal) as refusal:
        request_head(data)
    assert refusal.value.status == expected


@pytest.mark.parametrize("text", ["-1", "1e3", "", "²", "9" * 10])
def test_the_length_of_a_body_is_a_number(text: str) -> None:
    with pytest.raises(HttpRefusal):
        _ = RequestHead(method="POST", path="/", headers={"content-length": text}).body_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-99", (0, 100)),
        ("bytes=900-", (900, 1000)),
        ("bytes=990-5000", (990, 1000)),
        ("bytes=-100", (900, 1000)),
        ("bytes=-5000", (0, 1000)),
        ("", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
        ("bytes=-", None),
        ("bytes=²-3", None),
    ],
)
def test_ranges(text: str, expected: tuple[int, int] | None) -> None:
    assert byte_range(text, 1000) == expected


@pytest.mark.parametrize("text", ["bytes=1000-", "bytes=5-4", "bytes=-0"])
def test_a_range_with_nothing_in_it_is_refused(text: str) -> None:
    with pytest.raises(HttpRefusal) as refusal:
        byte_range(text, 1000)
    assert (refusal.value.status, refusal.value.headers) == (416, {"Content-Range": "bytes */1000"})


# ---- who may ask


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8200", "LOCALHOST:1", "127.0.0.1:8200", "[::1]:8200", "[::1]"]
)
def test_loopback_is_answered_whatever_the_port(host: str) -> None:
    """A tunnel of ssh has another port at the other end."""
    assert status(head(**known(Host=host))) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8200",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost:8200@evil.example",
        "127.0.0.1:x",
        "[::1]x",
        "[::1",
        "0.0.0.0",
        "127.0.0.2",
        "localhost:123456",
        "localhost,evil.example",
    ],
)
@pytest.mark.parametrize("line", ["GET /runs.json HTTP/1.1", "GET /static/app.js HTTP/1.1", "POST /session HTTP/1.1"])
def test_other_hosts_are_refused_before_anything_else(host: str, line: str) -> None:
    """A name of somebody else that leads to this machine: also where the token is right."""
    assert status(head(line, **known(Host=host, Authorization=f"Bearer {TOKEN}"))) == 421


def test_hosts_can_be_allowed() -> None:
    judge = gate(hosts=gates.LOOPBACK | {"gpu7.lab"})
    assert status(head(**known(Host="GPU7.lab:8200")), judge) == 200
    assert status(head(**known(Host="gpu8.lab:8200")), judge) == 421


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "FOO"])
def test_methods_are_an_allow_list(method: str) -> None:
    assert status(head(f"{method} /runs.json HTTP/1.1", **known())) == 405


@pytest.mark.parametrize("path", ["/runs", "/runs/x", "/", "/events", "/session.json", "/session/"])
def test_nothing_but_a_session_can_be_posted(path: str) -> None:
    headers = {"Origin": "http://localhost:8200", gates.TOKEN_HEADER: TOKEN}
    assert status(head(f"POST {path} HTTP/1.1", **known(**headers))) == 405


def test_data_needs_the_cookie_or_the_token() -> None:
    assert status(head()) == 401
    assert status(head(**known())) == 200
    assert status(head(Cookie=f"a=b; umiak-dashboard-8200={SESSION} ; c=d")) == 200
    assert status(head(Authorization=f"Bearer {TOKEN}")) == 200
    assert status(head(Authorization=f"Basic {TOKEN}")) == 401
    assert status(head(Authorization=f"Bearer {TOKEN}x")) == 401
    assert status(head(Cookie=f"umiak-dashboard-8200={TOKEN}")) == 401
    assert status(head(Cookie=f"umiak-dashboard-8201={SESSION}")) == 401


def test_a_page_and_its_files_need_none() -> None:
    """They hold nothing of any run, and the page is what exchanges the token."""
    assert status(head("GET /static/app.js HTTP/1.1")) == 200
    assert status(head("GET /runs/x HTTP/1.1", Accept="text/html,*/*")) == 200
    assert status(head("GET /runs/x.json HTTP/1.1", Accept="text/html")) == 401
    assert status(head("GET /files/x/y HTTP/1.1", Accept="text/html")) == 401
    assert status(head("GET /runs/x HTTP/1.1", Accept="*/*")) == 401


def test_the_exchange_needs_token_and_origin() -> None:
    good = {"Origin": "http://localhost:8200", gates.TOKEN_HEADER: TOKEN}
    assert status(head("POST /session HTTP/1.1", **good)) == 200
    assert status(head("POST /session HTTP/1.1", **good, Sec_Fetch_Site="same-origin")) == 200
    for changes, expected in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "https://localhost:8200"}, 403),
        ({"Origin": "http://localhost:8201"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({gates.TOKEN_HEADER: ""}, 401),
        ({gates.TOKEN_HEADER: TOKEN[:-1]}, 401),
        ({gates.TOKEN_HEADER: "", "Authorization": f"Bearer {TOKEN}"}, 401),
        ({gates.TOKEN_HEADER: "", "Cookie": f"umiak-dashboard-8200={SESSION}"}, 401),
    ):
        assert status(head("POST /session HTTP/1.1", **{**good, **changes})) == expected, changes


def test_pages_of_other_sites_read_nothing() -> None:
    assert status(head(**known(Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors"))) == 403
    assert status(head(**known(Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors"))) == 403
    assert status(head(**known(Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate"))) == 200


def test_many_wrong_tokens_are_told_to_wait_and_the_right_one_is_taken() -> None:
    judge = gate()
    wrong = head(Authorization="Bearer wrong")
    right = head(Authorization=f"Bearer {TOKEN}")
    found = [status(wrong, judge) for _ in range(guard.MOST_FAILURES + 2)]
    assert found == [401] * guard.MOST_FAILURES + [429] * 2
    assert status(right, judge) == 200
    judge.check(head(**known()), 100.0)  # who has a session is not held up
    with pytest.raises(HttpRefusal) as refusal:
        judge.check(wrong, 101.0 + guard.FAILURE_EVERY_S)
    assert refusal.value.status == 401


def test_the_cookie_is_for_this_server_alone() -> None:
    cookie = gate().session_cookie()
    assert cookie == f"umiak-dashboard-8200={SESSION}; Path=/; HttpOnly; SameSite=Strict"
    assert gate(is_tls=True).session_cookie().endswith("; Secure")


def test_nothing_may_run_that_is_not_a_file_of_ours() -> None:
    assert "'unsafe" not in guard.POLICY
    assert guard.POLICY.startswith("default-src 'none'; script-src 'self';")


def test_host_names() -> None:
    assert [host_name(text) for text in ("A:1", "a", "[::1]:2", "", ":80", "a:b:c")] == ["a", "a", "[::1]", "", "", ""]


def test_browsers_that_want_something_to_show_get_the_page() -> None:
    assert wants_page(head("GET /runs HTTP/1.1", Accept="text/html"))
    assert not wants_page(head("GET /runs HTTP/1.1", Accept="application/json"))
    assert not wants_page(head("GET /runs.json HTTP/1.1", Accept="text/html"))

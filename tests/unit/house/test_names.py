"""Which hosts are loopback. By this a launcher decides whom it listens for and whether a token is needed."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from umiak.adapters import frames
from umiak.core.names import is_loopback

LOOPBACK = [
    "127.0.0.1",
    "127.0.1.1",
    "127.255.255.254",
    "127.1",
    "localhost",
    "LocalHost",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0000::0001",
    "::ffff:127.0.0.1",
]
ELSEWHERE = [
    "",
    "10.0.0.1",
    "0.0.0.0",
    "12.7.0.1",
    "128.0.0.1",
    "1270.0.0.1",
    "127",
    "127.",
    "127.0.0.256",
    "127.0.0.1.1",
    "127.0.0.1.example.org",
    "127.example.org",
    "127.\N{ARABIC-INDIC DIGIT ONE}",
    "localhost.example.org",
    "my-localhost",
    "unknown",
    "::",
    ":1",
    "1",
    "::2",
    "::11",
    "::10",
    "1::",
    "1::1",
    "::1:1",
    "fe80::1",
    "fe80::1%lo",
    "::ffff:10.0.0.1",
    "::ffff:127.example.org",
    "ffff::127.0.0.1",
    "2001:db8::1",
]


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", [host for host in (*LOOPBACK, *ELSEWHERE) if is_address(host)])
def test_the_standard_library_says_the_same_of_an_address(host: str) -> None:
    address = ipaddress.ip_address(host)
    plain = getattr(address, "ipv4_mapped", None) or address
    assert is_loopback(host) is plain.is_loopback


@pytest.mark.parametrize("host", LOOPBACK)
def test_a_launcher_can_listen_there(host: str) -> None:
    if ":" in host and "." not in host and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with frames.listen(host, 0) as sock:
        assert is_loopback(sock.getsockname()[0])

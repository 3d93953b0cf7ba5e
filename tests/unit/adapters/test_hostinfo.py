"""What a machine knows of its own addresses, asked of the kernel and of nobody else."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from umiak.adapters import hostinfo


def can_be_bound(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        try:
            sock.bind((address, 0))
        except OSError:
            return False
        return True


def test_every_address_is_one_of_this_machine() -> None:
    found = hostinfo.addresses()
    assert "127.0.0.1" in found
    assert len(set(found)) == len(found)
    assert all(can_be_bound(address) for address in found)


def test_loopback_comes_last_and_link_local_ipv6_not_at_all() -> None:
    kinds = [ipaddress.ip_address(address) for address in hostinfo.addresses()]
    loopback = [kind.is_loopback for kind in kinds]
    assert loopback == sorted(loopback)
    assert not any(kind.version == 6 and kind.is_link_local for kind in kinds)


def test_the_address_towards_loopback_is_loopback() -> None:
    assert hostinfo.address_towards("127.0.0.1") == "127.0.0.1"


def test_no_route_no_address() -> None:
    assert hostinfo.address_towards("no-such-host.invalid") == ""


def test_the_public_address_is_one_of_this_machine() -> None:
    assert hostinfo.public_address() in hostinfo.addresses()


def test_without_a_way_out_the_first_interface_is_the_public_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostinfo, "address_towards", lambda _host: "")
    assert hostinfo.public_address() == hostinfo.addresses()[0]
    monkeypatch.setattr(hostinfo, "addresses", lambda: ())
    assert hostinfo.public_address() == "127.0.0.1"


def test_the_own_name_is_never_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("Debian says 127.0.1.1")

    monkeypatch.setattr(socket, "gethostname", refuse)
    monkeypatch.setattr(socket, "getfqdn", refuse)
    monkeypatch.setattr(socket, "gethostbyname", refuse)
    assert hostinfo.public_address()
    assert hostinfo.addresses()


def test_names_become_addresses_and_unknown_names_stay() -> None:
    assert hostinfo.resolve("localhost") in ("127.0.0.1", "::1")
    assert hostinfo.resolve("10.1.2.3") == "10.1.2.3"
    assert hostinfo.resolve("no-such-host.invalid") == "no-such-host.invalid"


def test_a_machine_without_ipv6_has_no_such_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise FileNotFoundError

    monkeypatch.setattr(hostinfo, "open", refuse, raising=False)
    found = hostinfo.addresses()
    assert "127.0.0.1" in found
    assert not any(":" in address for address in found)


def test_an_address_leads_to_its_interface() -> None:
    assert hostinfo.interface_with("127.0.0.1") == "lo"
    assert hostinfo.interface_with("192.0.2.77") == ""
    assert all(hostinfo.interface_with(address) for address in hostinfo.addresses())

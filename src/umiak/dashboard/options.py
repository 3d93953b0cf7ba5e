"""How a dashboard was asked to be. Values."""

from __future__ import annotations

from umiak.core.value import value


@value
class DashboardOptions:
    """What the command line says."""

    directories: tuple[str, ...]
    host: str = ""
    """Empty: loopback."""
    port: int = 0
    """0: any that is free."""
    token: str = ""
    """Empty: a new one."""
    allowed_hosts: tuple[str, ...] = ()
    tls_certificate: str = ""
    tls_key: str = ""
    allowed: frozenset[str] = frozenset()
    """What may be done to runs: ``cancel``."""

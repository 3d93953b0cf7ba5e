"""The host key that an ssh server shows. An adapter, with asyncssh.

The first key that a new machine shows is trusted, as ssh asks people to do, and kept: another one later is refused.
No cloud's API tells a machine's keys.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib

from umiak.submit.backends.ssh.connections import import_asyncssh


def fetch(host: str, port: int, timeout_s: float) -> str:
    """``ssh-ed25519 AAAA...``. OSError while ssh does not answer."""
    import_asyncssh()
    import asyncssh

    async def ask() -> str:
        key = await asyncio.wait_for(asyncssh.get_server_host_key(host, port, config=None), timeout_s)
        if key is None:
            raise OSError("it shows no host key")
        return " ".join(key.export_public_key().decode().split()[:2])

    try:
        return asyncio.run(ask())
    except (asyncssh.Error, asyncio.TimeoutError) as error:
        raise OSError(str(error) or "no answer in time") from None


def fingerprint(key: str) -> str:
    """As ssh shows it: ``SHA256:...``."""
    digest = hashlib.sha256(base64.b64decode(key.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

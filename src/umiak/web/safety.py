"""What a server beyond this machine needs, from files: its token and its certificate. An adapter.

token_of("token")                        the token in a file that nobody else may read
tls_context("cert.pem", "key.pem")
"""

from __future__ import annotations

import os
import stat

from umiak.core.problem import UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

LARGEST_TOKEN_FILE = 4096
LEAST_TOKEN = 32


def token_of(path: str) -> str:
    """The token in a file that nobody else may read. UmiakError if it is not such a file."""
    hint = "umask 077; umiak token > FILE"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            seen, data = os.fstat(fd), os.read(fd, LARGEST_TOKEN_FILE)
        finally:
            os.close(fd)
    except OSError as error:
        raise UmiakError.of("UM-DASH-005", f"the token can't be read: {path}", why=error.strerror, hint=hint) from None
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o077:
        why = "it has to be a file of your own, with mode 0600"
        raise UmiakError.of("UM-DASH-005", f"others can read or change the token: {path}", why=why, hint=hint)
    token = data.decode(errors="replace").strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        why = f"expected {LEAST_TOKEN} letters, digits or signs or more, in one line"
        raise UmiakError.of("UM-DASH-005", f"not a token: {path}", why=why, hint=hint)
    return token


def tls_context(certificate: str, key: str = "") -> ssl.SSLContext:
    """UmiakError if these are no certificate with its key."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key or None)
    except (OSError, ValueError) as error:
        raise UmiakError.of(
            "UM-DASH-002",
            f"the certificate can't be used: {certificate}",
            why=str(error),
            hint="--tls-cert and --tls-key name two PEM files that belong together",
        ) from None
    return context

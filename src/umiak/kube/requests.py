"""What is sent to a Kubernetes API, and what follows from its answers:
an object, a wait, another credential, or the end. A decider.

    match next_step(attempts, error, chance=random()):
        case SendAgain(seconds, attempts):  sleep, then send it again
        case Renew(attempts):          renew the credential, then send it again; the error itself where there is no other
        case GiveUp(error):            raise it

`api` and `async_api` send. Requests that got no answer, 429 and 5xx are sent again, with jitter, and no sooner than the
API asks for. Every object has a name of ours, so a creation that is sent twice creates once. What went wrong is told
without headers and bodies: they have tokens and secrets.
"""

from __future__ import annotations

import json
import os
import ssl
from urllib.parse import urlencode, urlsplit

from umiak.core.backoff import RETRIED_STATUSES, RetryPolicy, retry_after_s
from umiak.core.problem import UmiakError
from umiak.core.shown import one_line, without_password
from umiak.core.value import positional_value, replace, value
from umiak.kube.answers import KubeRefused, KubeSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.kube.kubeconfig import KubeAccess

POLICY = RetryPolicy(first_s=0.1)
JSON, MERGE, JSON_PATCH = "application/json", "application/merge-patch+json", "application/json-patch+json"
PAGE = 500
"""Objects in one answer to a list: a larger one would hold up everything else while it is read."""
LONGEST_REFUSAL = 1 << 16


# ---- what follows from a failure


@value
class Attempts:
    """One request, and what was tried so far."""

    policy: RetryPolicy
    failures: int = 0
    is_renewed: bool = False
    """Whether its credential was renewed: that helps once at most."""


@value
class SendAgain:
    """Send it again after a while."""

    seconds: float
    attempts: Attempts


@value
class Renew:
    """Renew the credential and send it again at once."""

    attempts: Attempts


@value
class GiveUp:
    """Raise this."""

    error: KubeRefused | KubeSilent


def next_step(attempts: Attempts, error: KubeRefused | KubeSilent, chance: float) -> SendAgain | Renew | GiveUp:
    """What to do after a request has failed. ``chance`` is a random number from 0 to 1."""
    after_s = 0.0
    silent = error
    if isinstance(error, KubeRefused):
        if error.status == 401 and not attempts.is_renewed:
            return Renew(attempts=replace(attempts, is_renewed=True))
        if error.status not in RETRIED_STATUSES:
            return GiveUp(error=error)
        after_s = error.after_s
        if after_s <= attempts.policy.longest_s:
            silent = KubeSilent(str(error), error.request)
    elif error.tls:
        return GiveUp(error=error)
    failures = attempts.failures + 1
    wait_s = attempts.policy.wait_s(failures, chance, retry_after_s=after_s)
    if wait_s is None:
        return GiveUp(error=silent)
    return SendAgain(seconds=wait_s, attempts=replace(attempts, failures=failures))


# ---- requests


@positional_value
class KubeRequest:
    """What is sent, as often as needed."""

    verb: str
    path: str
    query: Mapping[str, str] = {}
    body: object = None
    kind: str = JSON

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"{self.verb} {self.path}"

    @property
    def data(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()

    def target(self, access: KubeAccess) -> str:
        """The path of a request, below that of the server."""
        path = f"{urlsplit(access.server).path.rstrip('/')}{self.path}"
        return f"{path}?{urlencode(self.query)}" if self.query else path


def page_query(query: Mapping[str, str], token: str) -> dict[str, str]:
    """What is asked for the next page of a list."""
    return {**query, "limit": str(PAGE), **({"continue": token} if token else {})}


def delete_body(options: JsonMapping | None) -> JsonObject:
    """What is sent with a DELETE."""
    return {"kind": "DeleteOptions", "apiVersion": "v1", **(options or {})}


def proxy(access: KubeAccess, environ: Mapping[str, str]) -> SplitResult | None:
    """That of the kubeconfig, else that of the environment, unless it makes an exception for this host."""
    url = access.proxy or _proxy_of_environ(access.server, environ)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme in ("http", ""):
        return parts._replace(scheme="http")
    raise UmiakError.of(
        "UM-SUBMIT-182", f"proxies of this kind are not supported: {without_password(url)}", hint="use an http:// proxy"
    )


def _proxy_of_environ(server: str, environ: Mapping[str, str]) -> str:
    parts = urlsplit(server)
    names = (f"{parts.scheme}_proxy", f"{parts.scheme.upper()}_PROXY")
    url = next((environ[name] for name in names if environ.get(name)), "")
    if not url:
        return ""
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return "" if proxy_bypass_environment(parts.hostname or "", {"no": exceptions}) else url


# ---- answers


def page(answer: JsonMapping) -> tuple[list[JsonObject], str, str]:
    """The objects of one page of a list, the version of the list, and the token of the next page;
    empty: it was the last one.
    """
    metadata = answer.get("metadata") or {}
    return answer.get("items") or [], str(metadata.get("resourceVersion") or ""), metadata.get("continue") or ""


def parsed(text: bytes, request: str) -> JsonObject:
    """An answer's object."""
    try:
        answer = json.loads(text) if text else {}
    except ValueError:
        raise KubeRefused(0, "NotKubernetes", "the answer is no JSON", request) from None
    return answer if isinstance(answer, dict) else {}


def refusal(status: int, phrase: str, text: bytes, retry_after: str, request: str, now_s: float) -> KubeRefused:
    """What an answer with an error says."""
    shown = text.decode(errors="replace")
    try:
        answer = json.loads(shown)
        reason, message = str(answer["reason"]), str(answer["message"])
    except (ValueError, KeyError, TypeError):
        reason, message = phrase, one_line(shown.strip(), 200)
    after_s = retry_after_s(retry_after, now_s)
    return KubeRefused(status, one_line(reason, 60), one_line(message, 600), request, after_s=after_s)


def no_answer(error: BaseException, request: str) -> KubeSilent:
    """A connection that failed. TLS errors have a hint: to send it again does not help."""
    number = getattr(error, "errno", None)
    text = getattr(error, "strerror", None) or str(error) or (os.strerror(number) if number else "")
    name = type(error).__name__
    # aiohttp has errors of its own around those of TLS.
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    return KubeSilent(one_line(f"{name}: {text}" if text else name, 300), request, tls=_tls_hint(cause))


def _tls_hint(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if "expired" in str(error):
            return "the server's certificate has expired, or this machine's clock is wrong"
        if "mismatch" in str(error).lower() or "doesn't match" in str(error):
            return "the certificate is for another name: use the address that is in it, or set tls-server-name in the kubeconfig"
        return (
            "the server's certificate is not signed by the authority in the kubeconfig: download the kubeconfig again"
        )
    if isinstance(error, ssl.SSLError) and ("ALERT" in str(error) or "WRONG_VERSION" in str(error)):
        return "is this a TLS port, and is the client certificate of the kubeconfig still accepted?"
    return ""

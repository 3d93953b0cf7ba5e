"""What a cluster's API says when it does not do what it is asked for, and how that is told to people. Values."""

from __future__ import annotations

from umiak.core.problem import UmiakError
from umiak.core.shown import without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.kube.kubeconfig import KubeAccess


class KubeRefused(Exception):
    """The API has answered, and said no."""

    def __init__(self, status: int, reason: str, message: str, request: str, *, after_s: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message, self.request = status, reason, message, request
        self.after_s = after_s
        """How long the API wants to be left alone."""


class KubeSilent(Exception):
    """No answer that says what happened, although the request was sent several times."""

    def __init__(self, why: str, request: str, *, tls: str = "") -> None:
        super().__init__(why)
        self.why, self.request, self.tls = why, request, tls


def told(error: KubeRefused | KubeSilent, place: str, access: KubeAccess) -> UmiakError:
    """What went wrong, for people: place, cause, hint."""
    server = without_password(access.server)
    if isinstance(error, KubeSilent):
        return UmiakError.refused(
            "UM-SUBMIT-182",
            f"{place}: the cluster's API does not answer: {server}",
            why=f"{error.why} ({error.request})",
            hint=error.tls
            or "is the address right, and is it reachable from here (VPN, proxy)? `kubectl cluster-info` asks it as well",
        )
    return UmiakError.refused(
        "UM-SUBMIT-183",
        f"{place}: the cluster has refused: {error.request}",
        why=f"{error.status} {error.reason}: {error.message}",
        hint=f"it asks to be left alone for {error.after_s:.0f} s: try again then"
        if error.after_s
        else _HINTS.get(error.status),
    )


_HINTS = {
    0: "is this the address of a Kubernetes API? a proxy or a login page may have answered",
    400: "the object or the request does not fit this cluster's version",
    401: "the credentials have ended or are wrong: log in again, or download the kubeconfig again",
    403: "ask for the rights, or use another namespace; `umiak kubeconfig --check` shows which rights are missing",
    404: "is the namespace there, and has the cluster this kind of object? `kubectl get ns`, `kubectl api-resources`",
    409: "something of this name is being deleted, or belongs to somebody else",
    413: "an object is too large: send fewer files, or name storage with `files_url`",
    422: "the cluster's rules don't allow such an object: the cause says which field",
}

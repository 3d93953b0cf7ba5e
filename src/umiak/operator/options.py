"""What a person can ask the operator for. Values."""

from __future__ import annotations

from umiak.core.value import value


@value
class OperatorOptions:
    """The flags of `umiak operator`, as they are meant."""

    namespaces: tuple[str, ...] = ()
    """Where jobs are looked for; none: everywhere."""
    with_kubeflow: bool = False
    with_kueue: bool = False
    """Whether jobs with a queue of Kueue wait in it."""
    gang: str = ""
    etcd: str = ""
    elects: bool = False
    lease_namespace: str = "paddle-system"
    metrics_address: str = ":8080"
    health_address: str = ":8081"
    in_flight: int = 32
    """Requests at a time for what jobs want done."""
    node_timeout_s: float = 60.0
    kubeconfig: str = ""
    context: str = ""

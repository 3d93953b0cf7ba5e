"""Adapter: nodes that exist in the API only, played by kwok: pods on them run at once, and end as annotations say.

    with control_plane.opened() as plane, fake_nodes.opened(plane, 10) as nodes:
        plane.apply(pod)
        nodes.finish("pod-name", exit_code=1)

A pod that is bound to such a node becomes Running and ready, with an address, init containers done. Nothing is started, so there are no logs.

| annotation of a pod | what happens |
|---|---|
| `testbed.umiak/hold` with any value | it stays Pending |
| `testbed.umiak/exit-code: "0"` | it succeeds |
| `testbed.umiak/exit-code: "17"` | all its containers end with 17, and it fails |
| `testbed.umiak/reason: Evicted`, besides the exit code | the reason in the pod's status |

The annotations can stand in a template, so that pods end at once, or be added to a running pod. A pod whose restart policy lets
containers start again fails all the same. A node is never lost by itself: `lose` and `return_node` tell it to the API.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.kubernetes import programs
from testbed.kubernetes.control_plane import ControlPlane

HOLD = "testbed.umiak/hold"
EXIT_CODE = "testbed.umiak/exit-code"
REASON = "testbed.umiak/reason"
CPUS = 64
MEMORY = "512Gi"
PODS = 1000
"""What each node has to give."""


@contextlib.contextmanager
def opened(plane: ControlPlane, count: int = 4) -> Iterator[FakeNodes]:
    """Add nodes `fake-0`, `fake-1`, ... that are ready."""
    nodes = FakeNodes(plane, count)
    nodes.start()
    try:
        yield nodes
    finally:
        nodes.stop()


class FakeNodes:
    """Fake nodes of one control plane; see `opened()`."""

    def __init__(self, plane: ControlPlane, count: int) -> None:
        self.names = [f"fake-{number}" for number in range(count)]
        self._plane = plane

    def start(self) -> None:
        """Start kwok, and make the nodes."""
        stages = self._plane.directory / "stages.yaml"
        stages.write_text("---\n".join(json.dumps(stage, indent=1) + "\n" for stage in _STAGES))
        command = [
            programs.program("kwok"),
            f"--kubeconfig={self._plane.inner_kubeconfig}",
            f"--config={stages}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0",
        ]
        self._process = self._plane.work.popen(command, log="kwok.log", host=self._plane.host)
        for number, name in enumerate(self.names):
            self._plane.request("POST", "/api/v1/nodes", _node(name, number))
            self._taint(name, [])  # admission gave it the taint of nodes that are not ready yet

    def stop(self) -> None:
        """Kill kwok: from now on nothing happens to pods."""
        self._process.kill()
        self._process.wait()

    def finish(self, pod: str, exit_code: int = 0, *, reason: str = "", namespace: str = "default") -> None:
        """Let all containers of a pod end."""
        annotations = {EXIT_CODE: str(exit_code), **({REASON: reason} if reason else {})}
        self.annotate(pod, annotations, namespace=namespace)

    def release(self, pod: str, *, namespace: str = "default") -> None:
        """Let a pod run that was held."""
        self.annotate(pod, {HOLD: None}, namespace=namespace)

    def annotate(self, pod: str, annotations: Mapping[str, str | None], *, namespace: str = "default") -> None:
        """Set annotations of a pod, and take those away that are `None`."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        self._plane.request("PATCH", path, {"metadata": {"annotations": dict(annotations)}})

    def lose(self, name: str) -> None:
        """Tell the API that nothing is heard of a node; its pods are deleted a few seconds later."""
        self._ready(name, "Unknown")
        self._taint(name, [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])

    def return_node(self, name: str) -> None:
        """Undo `lose`."""
        self._ready(name, "True")
        self._taint(name, [])

    def _ready(self, name: str, status: str) -> None:
        change = {"status": {"conditions": [_ready_condition(status)]}}
        self._plane.request("PATCH", f"/api/v1/nodes/{name}/status", change)

    def _taint(self, name: str, taints: list[dict[str, str]]) -> None:
        self._plane.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})


def _node(name: str, number: int) -> dict[str, Any]:
    high, low = divmod(number, 256)
    resources = {"cpu": str(CPUS), "memory": MEMORY, "pods": str(PODS), "ephemeral-storage": "1Ti"}
    cidr = f"10.{128 + high}.{low}.0/24"
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": f"10.{64 + high}.{low}.1"},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [_ready_condition("True")],
        },
    }


def _ready_condition(status: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "reason": "Testbed", "message": "told by the testbed"}


def _is(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _has(key: str, *, there: bool) -> dict[str, str]:
    return {"key": key, "operator": "Exists" if there else "DoesNotExist"}


def _stage(name: str, kind: str, expressions: list[dict[str, Any]], following: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": expressions},
            "next": following,
        },
    }


_RUNNING = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
{{ $own := NodeIPsWith .spec.nodeName }}
{{ with $own }}
hostIP: {{ index . 0 | Quote }}
hostIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
{{ $given := PodIPsWith .spec.nodeName (or .spec.hostNetwork false) (or .metadata.uid "") .metadata.name .metadata.namespace }}
{{ with $given }}
podIP: {{ index . 0 | Quote }}
podIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
"""

_ENDED = f"""
{{{{ $now := Now }}}}
{{{{ $code := index .metadata.annotations "{EXIT_CODE}" }}}}
{{{{ $reason := or (index .metadata.annotations "{REASON}") "" }}}}
{{{{ $outcome := "Error" }}}}
{{{{ if eq $code "0" }}}}
{{{{ $outcome = "Completed" }}}}
phase: Succeeded
{{{{ else }}}}
phase: Failed
{{{{ end }}}}
{{{{ if $reason }}}}
reason: {{{{ $reason | Quote }}}}
{{{{ end }}}}
conditions:
- {{type: Ready, status: "False", lastTransitionTime: {{{{ $now | Quote }}}}}}
- {{type: ContainersReady, status: "False", lastTransitionTime: {{{{ $now | Quote }}}}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {{{{ $code }}}}
      reason: {{{{ $outcome }}}}
      startedAt: {{{{ $now | Quote }}}}
      finishedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
"""

_LIVE = _has(".metadata.deletionTimestamp", there=False)
_ANNOTATION = '.metadata.annotations.["{}"]'

_STAGES = [
    _stage("node", "Node", [_has(".status.conditions", there=False)], {}),
    _stage(
        "pod-runs",
        "Pod",
        [
            _LIVE,
            _is(".status.phase", "Pending"),
            _has(".status.podIP", there=False),
            _has(_ANNOTATION.format(HOLD), there=False),
        ],
        {"statusTemplate": _RUNNING},
    ),
    _stage(
        "pod-ends",
        "Pod",
        [_LIVE, _is(".status.phase", "Running"), _has(_ANNOTATION.format(EXIT_CODE), there=True)],
        {"statusTemplate": _ENDED},
    ),
    _stage("pod-deleted", "Pod", [_has(".metadata.deletionTimestamp", there=True)], {"delete": True}),
]

"""What happens in a stand-in Kubernetes beside its API: controllers make pods, nodes start them, containers write logs.

    cluster = Cluster(SCHEMAS)
    cluster.pods()                         what controllers would have created for the workloads
    cluster.set_pod("wide-0", "Running")
    cluster.say("wide-0", "step 1")

Pods are as a test says (`set_pod`), or real: `Kubelet` starts what their containers would run, with mounts and environment.
"""

from __future__ import annotations

import base64
import copy
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.kube_store import GROUPS, Object, Store, is_over, now, stamp


class Cluster(Store):
    """Objects, and what controllers and nodes do with them."""

    def __init__(self, schemas: Mapping[str, Any] | None = None, groups: tuple[str, ...] = GROUPS) -> None:
        super().__init__(schemas, groups)
        self.logs: dict[str, list[tuple[str, str]]] = {}
        """Of each pod: when, and the line."""
        self.rights: Callable[[Object], bool] = lambda _: True

    def pods(self) -> list[Object]:
        """Create the pods of every workload, as its controller would, and return them all."""
        for plural in ("jobs", "jobsets", "paddlejobs"):
            for workload in self.all(plural):
                for role, template, count, names in templates(workload):
                    for index in range(count):
                        self._pod(workload, role, template, index, names(index))
        return self.all("pods")

    def _pod(self, owner: Object, role: str, template: Object, index: int, name: str) -> None:
        namespace = owner["metadata"]["namespace"]
        if self.get("pods", name):
            return
        metadata = copy.deepcopy(template["metadata"]) | {"name": name, "namespace": namespace}
        if owner["kind"] != "PaddleJob":
            metadata.setdefault("annotations", {})["batch.kubernetes.io/job-completion-index"] = str(index)
        reference = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [{**reference, "kind": owner["kind"], "apiVersion": owner["apiVersion"]}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}
        self.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    def set_pod(self, name: str, phase: str, state: Object | None = None, **status: Any) -> None:
        """As its node reports it; ``state`` is that of its container."""
        address = f"10.1.0.{1 + uuid.uuid5(uuid.NAMESPACE_DNS, name).int % 250}"
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}

        def change(pod: Object) -> None:
            pod["status"] = {"phase": phase}
            if phase != "Pending" or state:
                pod["spec"]["nodeName"] = "node-1"
                pod["status"] |= {"podIP": address, "podIPs": [{"ip": address}], "hostIP": "10.0.0.1"}
                pod["status"] |= {"startTime": now(), "conditions": [ready]}
            if state is not None:
                container = pod["spec"]["containers"][0]
                row = {"name": container["name"], "image": container["image"], "state": state}
                pod["status"]["containerStatuses"] = [row]
            pod["status"] |= status

        self.change("pods", name, change)

    def set_status(self, plural: str, status: Object) -> None:
        for each in self.all(plural):
            self.change(plural, each["metadata"]["name"], lambda body: body.update(status=status))

    def say(self, pod: str, *lines: str) -> None:
        with self.lock:
            self.logs.setdefault(pod, []).extend((stamp(), line) for line in lines)
            for listener in self.listeners:
                listener()

    def is_pod_over(self, name: str) -> bool:
        pod = self.get("pods", name)
        return pod is None or is_over(pod)


def templates(workload: Object) -> list[tuple[str, Object, int, Callable[[int], str]]]:
    """Role, template, number and names of a workload's pods."""
    spec, name = workload["spec"], workload["metadata"]["name"]
    if workload["kind"] == "PaddleJob":
        roles = [(role, spec[role]) for role in ("ps", "worker", "heter") if role in spec]
        return [(r, each["template"], each["replicas"], lambda i, r=r: f"{name}-{r}-{i}") for r, each in roles]  # type: ignore[misc]
    if workload["kind"] == "JobSet":
        rows = [(f"{name}-{each['name']}-0", each["template"]["spec"]) for each in spec["replicatedJobs"]]
    else:
        rows = [(name, spec)]
    return [("", job["template"], job["completions"], lambda i, n=n: f"{n}-{i}-x7k2p") for n, job in rows]  # type: ignore[misc]


class Kubelet:
    """Starts the containers of pods as processes of this machine: mounts, environment, logs and exit codes are real."""

    def __init__(self, cluster: Cluster, directory: Path, environment: Callable[[Object], dict[str, str]]) -> None:
        self.cluster, self.directory, self.environment = cluster, directory, environment
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.environs: dict[str, dict[str, str]] = {}
        self.threads: list[threading.Thread] = []
        self.entry: list[str] = []
        """Words before each container's command, such as those that enter a network namespace."""

    def start(self) -> None:
        for pod in self.cluster.pods():
            name = pod["metadata"]["name"]
            if name not in self.processes:
                self._start(name, pod)

    def _start(self, name: str, pod: Object) -> None:
        root = self.directory / name
        container = pod["spec"]["containers"][0]
        sources = {each["name"]: each for each in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            where = root / mount["mountPath"].lstrip("/")
            where.mkdir(parents=True)
            if config := sources[mount["name"]].get("configMap"):
                self._mount(where, config)
        environ = {"PATH": os.environ["PATH"], "HOME": str(root), "HOSTNAME": name}
        for source in container["envFrom"]:
            secret = self._of("secrets", source["secretRef"]["name"])
            environ |= {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}
        environ |= {each["name"]: each["value"] for each in container["env"]} | self.environment(pod)
        self.environs[name] = environ
        words = [word.replace("/umiak/", f"{root}/umiak/") for word in container["command"]]
        words[0] = sys.executable
        process = subprocess.Popen(
            [*self.entry, *words],
            env=environ,
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes[name] = process
        self.cluster.set_pod(name, "Running", {"running": {"startedAt": now()}})
        for work in (self._watch, self._end):
            self.threads.append(threading.Thread(target=work, args=(name, process), daemon=True))
            self.threads[-1].start()

    def _mount(self, where: Path, config: Object) -> None:
        """As a kubelet does: a file is a link into a directory of data."""
        found = self._of("configmaps", config["name"])
        content = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        content |= {key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}
        items = config.get("items") or [{"key": key, "path": key} for key in content]
        (where / "..data").mkdir()
        for item in items:
            (where / "..data" / item["path"]).write_bytes(content[item["key"]])
            (where / item["path"]).symlink_to(Path("..data") / item["path"])

    def _of(self, plural: str, name: str) -> Object:
        body = self.cluster.get(plural, name)
        assert body is not None, f"{plural} {name}"
        return body

    def _watch(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.cluster.say(name, line.rstrip("\n"))
        code = process.wait()
        code = 128 - code if code < 0 else code
        ended = {"exitCode": code, "finishedAt": now(), "startedAt": now(), "reason": "Error" if code else "Completed"}
        with self.cluster.lock:
            pod = self.cluster.get("pods", name)
            if pod is None:
                return
            self.cluster.set_pod(name, "Failed" if code else "Succeeded", {"terminated": ended})
            if pod["metadata"].get("deletionTimestamp"):
                self.cluster.remove("pods", name)

    def _end(self, name: str, process: subprocess.Popen[str]) -> None:
        """Signals as a kubelet sends them to a pod that is being deleted."""
        signalled_at = 0.0
        while process.poll() is None:
            pod = self.cluster.get("pods", name)
            is_ending = pod is None or pod["metadata"].get("deletionTimestamp")
            if is_ending and not signalled_at:
                signalled_at = time.monotonic()
                process.send_signal(signal.SIGTERM)
            grace = 0 if pod is None else pod["metadata"].get("deletionGracePeriodSeconds", 30)
            if signalled_at and time.monotonic() > signalled_at + max(grace, 5):
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for each in self.threads:
            each.join(10)

"""TF_CONFIG and CLUSTER_SPEC: the cluster as JSON, with roles, hosts and ports. A decider.

    {"cluster": {"ps": ["a:2222"], "worker": ["b:2222", "c:2222"]}, "task": {"type": "worker", "index": 1}}

TF_CONFIG comes from Kubeflow's TFJob, PAI-DLC and others; its roles are chief or master, worker, ps and evaluator.
Vertex AI's CLUSTER_SPEC has the same shape with four numbered pools: the primary, workers, parameter servers,
evaluators. A chief, master or primary is trainer 0.

Traps
- The ports are the workers' own. Without servers the first of them is where nodes meet; with servers they are taken,
  and nodes meet on a port of ours.
- TF_CONFIG without a cluster is a job of one process, which needs no placement.
"""

from __future__ import annotations

from umiak.platforms import roles
from umiak.platforms.reading import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Placement
    from umiak.core.json_types import JsonObject
    from umiak.platforms.reading import Reader

POOLS = {"workerpool0": "chief", "workerpool1": "worker", "workerpool2": "ps", "workerpool3": "evaluator"}


def tf_config(reader: Reader) -> Placement | None:
    """A task of a TensorFlow cluster."""
    return _read(reader, "TF_CONFIG", {}, None)


def cluster_spec(reader: Reader) -> Placement | None:
    """A replica of a Vertex AI custom job."""
    return _read(reader, "CLUSTER_SPEC", POOLS, reader.text("CLOUD_ML_JOB_ID"))


def _read(reader: Reader, name: str, words: dict[str, str], job_id: str | None) -> Placement | None:
    spec = reader.mapping(name)
    cluster, task = spec.get("cluster"), spec.get("task")
    if not cluster:
        return None
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        reader.wrong("008", name, "no object `cluster` and object `task` in it")
        return None
    groups = {words.get(group) or str(group): reader.strings(hosts, name) for group, hosts in cluster.items() if hosts}
    own = str(task.get("type", "?"))
    index = _index(reader, name, task)
    reader.raise_problems()
    return roles.place(
        reader,
        groups,
        own=words.get(own) or own,
        index=index,
        names=(name, name, name),
        reason=f"{own} {index} in {name}",
        job_id=job_id,
    )


def _index(reader: Reader, name: str, task: JsonObject) -> int:
    found = task.get("index", 0)
    index = whole(str(found))
    if index is None:
        reader.wrong("003", name, f"the task's index is not an integer: {found}")
    return index or 0

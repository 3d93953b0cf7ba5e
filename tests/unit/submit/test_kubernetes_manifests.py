"""What a job becomes in a cluster: settings, objects as they were yesterday, the environment that pods read back, sizes, YAML."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from tests.support.kube_cluster import templates
from tests.support.kube_schemas import SCHEMAS, complaints
from tests.support.paths import GOLDEN, ROOT
from umiak import platforms
from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, Job, Replicas, Resource, RoleSpec, Transfer
from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.schema.settings import table
from umiak.submit import places
from umiak.submit.backends.kubernetes import checks, manifests, settings, yaml_text
from umiak.submit.backends.kubernetes.manifests import API, MOST_BYTES, ClusterParts, KubeObject
from umiak.submit.backends.kubernetes.names import LONGEST, RunNames
from umiak.submit.backends.kubernetes.settings import KubeSettings, KubeToleration, KubeVolume, WorkloadKind
from umiak.submit.payload import node_plan
from umiak.testing.environments import environment

RUN = "ctr-3f2a9c10"
GIB = 1 << 30


def nodes(least: int, most: int = 0) -> Replicas:
    return Replicas(least=least, most=most or least)


PS = Job(
    name="ctr",
    command=("train.py", "--lr", "0.1"),
    roles=(
        RoleSpec(role=Role.SERVER, nodes=nodes(2), resource=Resource(cpus=1.5, memory_bytes=4 * GIB)),
        RoleSpec(nodes=nodes(3), env=(("BATCH", "64"),)),
    ),
    secrets=("DB_PASSWORD",),
    files=FileSet(),
)
COLLECTIVE = Job(
    name="ctr",
    command=("-m", "models.train"),
    roles=(RoleSpec(nodes=nodes(2), resource=Resource(devices=8, device=DeviceKind.NPU, shared_memory_bytes=GIB)),),
    image="registry.example/paddle-npu:3.3",
    outputs=(Transfer(url="s3://bucket/run7", path="models"),),
    max_restarts=3,
    time_limit_s=3600,
)
ELASTIC = Job(name="ctr", command=("train.py",), roles=(RoleSpec(nodes=nodes(2, 4)),))
PLAIN = KubeSettings(namespace="training", image="registry.example/paddle:3.3")
RICH = replace(
    PLAIN,
    scheduler="volcano",
    queue="research",
    priority_class="high",
    service_account="trainer",
    image_pull_secrets=("registry",),
    pull_policy="IfNotPresent",
    node_selector=(("pool", "npu"),),
    tolerations=(KubeToleration(key="npu", effect="NoSchedule"), KubeToleration(key="team", value="ads")),
    volumes=(
        KubeVolume(name="data", mount="/data", pvc="datasets", read_only=True),
        KubeVolume(name="cache", mount="/cache", host_path="/var/cache/jobs"),
        KubeVolume(name="home", mount="/home/me", nfs="10.0.0.9:/export/me"),
        KubeVolume(name="conf", mount="/conf", config_map="confs", sub_path="ctr"),
    ),
    resources=(("npu", "huawei.com/ascend-1980"),),
    labels=(("team", "ads"),),
    annotations=(("cost-centre", "42"),),
    ttl_s=86400,
    etcd="etcd.infra:2379",
)


def parts(kind: WorkloadKind, **more: Any) -> ClusterParts:
    known = {"namespace": "training", "launcher_sha256": "ab" * 32, "launcher_bytes": 521_000}
    return ClusterParts(kind=kind, **{**known, **more})


def rendered(job: Job, said: KubeSettings, kind: WorkloadKind) -> tuple[KubeObject, ...]:
    files = {"files_digest": "cd" * 32, "files_bytes": 2048} if job.files else {}
    return manifests.objects(job, RUN, said, parts(kind, **files))


def text(objects: tuple[KubeObject, ...]) -> str:
    return "---\n".join(yaml_text.as_yaml(manifests.shown(each)) for each in objects)


ALL = [
    (name, job, said, kind)
    for name, job, said in (("ps", PS, PLAIN), ("collective", COLLECTIVE, RICH), ("elastic", ELASTIC, PLAIN))
    for kind in WorkloadKind
]


@pytest.mark.parametrize(("name", "job", "said", "kind"), ALL, ids=[f"{name}-{kind.value}" for name, _, _, kind in ALL])
def test_a_job_becomes_what_it_was_yesterday(name: str, job: Job, said: KubeSettings, kind: WorkloadKind) -> None:
    """UMIAK_REWRITE=1 writes the files; then look at the difference."""
    made = rendered(job, said, kind)
    file = GOLDEN / "kubernetes" / f"{name}-{kind.value}.yaml"
    if os.environ.get("UMIAK_REWRITE"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(made))
    assert text(made) == file.read_text()
    assert list(yaml.safe_load_all(text(made))) == json.loads(json.dumps([*map(manifests.shown, made)]))
    assert made == rendered(job, said, kind)
    for each in made:
        assert complaints(SCHEMAS[API[each.kind][1]], manifests.shown(each), each.kind) == []
        assert len(each.name) <= 63


# ---- the law: what pods find is what was meant


def pods_of(made: tuple[KubeObject, ...]) -> list[tuple[str, int, dict[str, str], dict[str, Any]]]:
    """Role, number in it, environment of the manifest, and template of every pod."""
    found = []
    for each in made:
        if each.kind in manifests.WORKLOADS:
            for _, template, count, _ in templates(each.body):
                env = {row["name"]: row["value"] for row in template["spec"]["containers"][0]["env"]}
                role = template["metadata"]["labels"]["umiak/role"]
                found += [(role, index, env, template) for index in range(count)]
    return found


@pytest.mark.parametrize("kind", [WorkloadKind.JOB, WorkloadKind.JOBSET])
@pytest.mark.parametrize("job", [PS, COLLECTIVE, ELASTIC], ids=["ps", "collective", "elastic"])
def test_pods_read_back_who_they_are(job: Job, kind: WorkloadKind) -> None:
    everybody = pods_of(rendered(job, PLAIN, kind))
    assert len(everybody) == job.nodes.most
    for rank, (role, index, env, template) in enumerate(everybody):
        group = {"server": "ps", "trainer": "worker"}[role]
        host = f"{RUN}-{group}-0-{index}"
        simulated = environment("indexed-job", nodes=job.nodes.most, rank=index)
        placement = platforms.detect({**simulated, "HOSTNAME": host, **env})
        assert placement is not None
        assert (placement.nodes, placement.rank, placement.job_id) == (job.nodes.most, rank, RUN)
        assert placement.role is (Role(role) if job.mode.has_servers else None)
        # The name by which peers look for it is the one that the cluster gives the pod.
        assert placement.host == f"{host}.{RUN}"
        assert kind is WorkloadKind.JOBSET or template["spec"]["subdomain"] == RUN
        first = f"{RUN}-{'ps' if job.mode.has_servers else 'worker'}-0-0.{RUN}"
        assert str(placement.master).rpartition(":")[0] == first
    if kind is WorkloadKind.JOB:
        services = [each for each in rendered(job, PLAIN, kind) if each.kind == "Service"]
        assert [each.name for each in services] == [RUN]


@pytest.mark.parametrize("job", [PS, COLLECTIVE], ids=["ps", "collective"])
def test_pods_of_an_operator_read_back_who_they_are(job: Job) -> None:
    servers = job.roles[0].nodes.most if job.mode.has_servers else 0
    for rank, (role, _, env, _) in enumerate(pods_of(rendered(job, PLAIN, WorkloadKind.PADDLEJOB))):
        simulated = environment("paddlejob", nodes=job.nodes.most, rank=rank, servers=servers)
        placement = platforms.detect({**simulated, **env})
        assert placement is not None
        assert (placement.platform, placement.nodes, placement.rank) == ("paddlejob", job.nodes.most, rank)
        assert placement.role is (Role(role) if servers else None)


def test_an_elastic_paddlejob_meets_at_etcd() -> None:
    ((_, _, env, _), *_) = pods_of(rendered(ELASTIC, RICH, WorkloadKind.PADDLEJOB))
    elastic = {"PADDLE_ELASTIC_JOB_ID": "training-ctr", "PADDLE_ELASTIC_NP": "4", "POD_IP": "10.1.0.4"}
    placement = platforms.detect({**elastic, **env})
    assert placement is not None
    assert placement.master == "etcd://etcd.infra:2379"


@pytest.mark.parametrize("kind", list(WorkloadKind))
def test_a_queue_of_kueue_is_a_label_of_every_kind(kind: WorkloadKind) -> None:
    job = replace(COLLECTIVE, roles=(RoleSpec(nodes=nodes(2)),))
    made = rendered(job, replace(PLAIN, scheduler="kueue", queue="team"), kind)
    labels = [each.body["metadata"]["labels"] for each in made if each.kind in manifests.WORKLOADS]
    assert [each.get("kueue.x-k8s.io/queue-name") for each in labels] == ["team"] * len(labels)
    assert labels


def test_one_pod_is_alone() -> None:
    job = replace(COLLECTIVE, roles=(RoleSpec(),))
    ((_, _, env, _),) = pods_of(rendered(job, PLAIN, WorkloadKind.JOB))
    placement = platforms.detect({"JOB_COMPLETION_INDEX": "0", "HOSTNAME": f"{RUN}-worker-0-0", **env})
    assert placement is not None
    assert (placement.rank, placement.nodes) == (0, None)


def test_each_role_has_its_plan() -> None:
    made = rendered(PS, PLAIN, WorkloadKind.JOBSET)
    plans = next(each for each in made if each.name == f"{RUN}-plan").body["data"]
    trainer = node_plan.from_text(plans["trainer.json"])
    assert trainer.env == (("BATCH", "64"),)
    assert trainer.launch == ("--tee", "all", "--log_dir", "../logs", "--job_id", RUN, "--", "train.py", "--lr", "0.1")
    assert trainer.files == node_plan.SentFiles(
        digest="cd" * 32, store="../work/store", archive="../files/files.tar.gz"
    )
    assert node_plan.from_text(plans["server.json"]).env == ()
    assert (
        "--nnodes"
        in node_plan.from_text(
            next(each for each in rendered(ELASTIC, PLAIN, WorkloadKind.JOB) if each.name.endswith("-plan")).body[
                "data"
            ]["trainer.json"]
        ).launch
    )


def test_large_files_come_from_storage() -> None:
    said = replace(PLAIN, files_url="s3://bucket/files/")
    known = parts(WorkloadKind.JOB, files_digest="cd" * 32, files_bytes=MOST_BYTES)
    made = manifests.objects(PS, RUN, said, known)
    assert not [each for each in made if each.name.endswith("-files")]
    plan = manifests.plan_of(PS, PS.roles[0], RUN, said, known)
    assert plan.files is not None
    assert plan.files.url == f"s3://bucket/files/{'cd' * 32}.tar.gz"
    assert plan.files.archive == "../work/files.tar.gz"
    assert "umiak-files" not in text(made)


def test_nothing_secret_is_rendered() -> None:
    for _, job, said, kind in ALL:
        secret = next(each for each in rendered(job, said, kind) if each.kind == "Secret")
        assert "data" not in secret.body
        assert set(manifests.shown(secret)["stringData"].values()) == {"<not shown>"}


@pytest.mark.parametrize(
    ("kind", "said", "name"),
    [
        (None, {}, "nvidia.com/gpu"),
        (DeviceKind.NPU, {}, "huawei.com/Ascend910"),
        (DeviceKind.XPU, {}, "kunlunxin.com/xpu"),
        (DeviceKind.DCU, {}, "hygon.com/dcu"),
        (None, {"device": DeviceKind.XPU, "resources": (("xpu", "baidu.com/xpu"),)}, "baidu.com/xpu"),
    ],
)
def test_every_vendor_has_a_name_for_its_accelerator(kind: DeviceKind | None, said: dict[str, Any], name: str) -> None:
    job = replace(COLLECTIVE, roles=(RoleSpec(resource=Resource(devices=4, device=kind)),))
    ((_, _, _, template),) = pods_of(rendered(job, replace(PLAIN, **said), WorkloadKind.JOB))
    resources = template["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {name: "4"}, "limits": {name: "4"}}


@pytest.mark.parametrize(
    "run_id", ["ctr-3f2a9c10", "Wide_and.Deep-3f2a9c10", "9lives-00ff", f"{'x' * 48}-0123456789ab", "_-1"]
)
def test_names_fit_into_a_cluster(run_id: str) -> None:
    name = RunNames.of(run_id).name
    assert len(name) <= LONGEST
    assert name[0].isalpha()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert name == run_id or name != RunNames.of(f"{run_id}x").name


# ---- checks


def problems(
    job: Job, said: KubeSettings, kind: WorkloadKind = WorkloadKind.JOB, secret: int = 0, **more: Any
) -> list[str]:
    return [each.code[-3:] for each in checks.problems(job, "prod", said, parts(kind, **more), secret)]


def test_what_can_be_told_before_the_cluster_is_asked() -> None:
    assert problems(PS, PLAIN) == []
    assert problems(PS, replace(PLAIN, image="")) == ["185"]
    assert problems(COLLECTIVE, replace(PLAIN, image="")) == []  # the job names its own
    assert problems(PS, PLAIN, launcher_bytes=MOST_BYTES) == ["186"]
    assert problems(PS, PLAIN, files_digest="cd", files_bytes=MOST_BYTES) == ["186"]
    assert problems(PS, replace(PLAIN, files_url="s3://b/f"), files_digest="cd", files_bytes=MOST_BYTES) == []
    assert problems(PS, PLAIN, secret=MOST_BYTES) == ["186"]
    assert problems(PS, replace(PLAIN, queue="research")) == ["187"]
    assert problems(ELASTIC, PLAIN, WorkloadKind.PADDLEJOB) == []  # the operator has a master of its own
    assert problems(ELASTIC, replace(PLAIN, etcd="e:2379"), WorkloadKind.PADDLEJOB) == []
    assert problems(PS, replace(PLAIN, ttl_s=60), WorkloadKind.PADDLEJOB) == ["188"]


# ---- settings

TOML = """
[place.prod]
backend = "kubernetes"
context = "cce"
namespace = "training"
kind = "jobset"
image = "registry.example/paddle:3.3"
scheduler = "volcano"
queue = "research"
image_pull_secrets = ["registry"]
node_selector = {pool = "npu", "kubernetes.io/arch" = "arm64"}
tolerations = [{key = "npu", effect = "NoSchedule"}]
shared_memory = "16GiB"
device = "npu"
resources = {npu = "huawei.com/ascend-1980"}
ttl = "1d"

[place.prod.volumes.data]
pvc = "datasets"
mount = "/data"
read_only = true
"""


def place(toml: str) -> places.NamedPlace:
    reading = places.read([("umiak.toml", toml)], ["kubernetes"])
    assert reading.problems == ()
    return reading.places["prod"]


def test_a_place_says_what_its_cluster_is_like() -> None:
    said = settings.read(place(TOML))
    assert said.kind is WorkloadKind.JOBSET
    assert said.resource_of(None) == "huawei.com/ascend-1980"
    assert said.node_selector == (("pool", "npu"), ("kubernetes.io/arch", "arm64"))
    assert said.tolerations == (KubeToleration(key="npu", effect="NoSchedule"),)
    assert said.volumes == (KubeVolume(name="data", mount="/data", pvc="datasets", read_only=True),)
    assert (said.shared_memory_bytes, said.ttl_s, said.grace_s) == (16 * GIB, 86400, 30)
    assert settings.read(place('[place.prod]\nbackend = "kubernetes"')) == KubeSettings()


def test_zero_is_a_value_and_an_empty_text_is_no_default() -> None:
    said = settings.read(place('[place.prod]\nbackend = "kubernetes"\ngrace = 0\nrequest_timeout = 0\nttl = 0'))
    assert (said.grace_s, said.request_timeout_s, said.ttl_s) == (0, 0, 0)
    with pytest.raises(UmiakError, match="place prod: python is empty"):
        settings.read(place('[place.prod]\nbackend = "kubernetes"\npython = ""'))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('namespaces = "x"', "did you mean `namespace`"),
        ('ns = "x"', "did you mean `namespace`"),
        ('kind = "deployment"', "it is one of paddlejob, jobset, job"),
        ('namespace = "My_Space"', "expected a name that Kubernetes takes"),
        ('labels = {team = "a b"}', "not a value of a label"),
        ('labels = {"a b" = "x"}', "expected a name that Kubernetes takes"),
        ('resources = {tpu = "google.com/tpu"}', "expected a kind of accelerator"),
        ('resources = {npu = "ascend"}', "not the name of a resource"),
        ('ttl = "soon"', "expected a time span"),
        ("tolerations = [1]", "a toleration must be a table"),
        ('volumes.data = {pvc = "a"}', "mount is missing"),
        ('volumes.data = {pvc = "a", nfs = "b:/c", mount = "/d"}', "more than one source"),
        ('volumes.data = {mount = "/d"}', "no source"),
        ('volumes.data = {pvc = "a", mount = "d"}', "not possible there"),
        ('volumes.data = {pvc = "a", mount = "/umiak"}', "not possible there"),
        ('volumes.data = {nfs = "server", mount = "/d"}', "not a server and a path"),
        ('volumes.umiak-work = {pvc = "a", mount = "/d"}', "expected a name of a volume"),
        ("volumes.data = 1", "must be a table"),
    ],
)
def test_wrong_settings_are_told_with_their_line(line: str, words: str) -> None:
    with pytest.raises(UmiakError) as caught:
        settings.read(place(f'[place.prod]\nbackend = "kubernetes"\n{line}\n'))
    (problem,) = caught.value.problems
    assert words in "\n".join(problem.lines())
    assert str(problem.where).startswith("umiak.toml:3")


def test_the_page_has_every_setting() -> None:
    page = (ROOT / settings.PAGE).read_text()
    for key in (*table(KubeSettings), *table(KubeVolume)):
        assert f"| `{key.name}` | " in page
        assert key.meaning in page
    others = ["amd.com/gpu", "huawei.com/ascend-1980", "huawei.com/Ascend910B", "baidu.com/xpu", "hygon.com/dcunum"]
    for name in (*settings.RESOURCES.values(), *others, "baidu.com/a100_80g_cgpu"):
        assert f"`{name}`" in page


# ---- YAML

SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3),
    max_leaves=12,
)


@effort(0.4)
@given(st.dictionaries(st.text(min_size=1, max_size=8), TREES, max_size=4))
def test_what_is_written_as_yaml_is_read_back(data: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text.as_yaml(data)) == data


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "1",
        "1.5",
        "0x10",
        "1e3",
        "null",
        "~",
        "a: b",
        "- a",
        "#",
        " a",
        "a ",
        "2026-01-01",
        "a\nb\n",
        "a\n\nb",
        "\na",
        "x \ny",
        "",
    ],
)
def test_words_that_yaml_could_misunderstand(word: str) -> None:
    assert yaml.safe_load(yaml_text.as_yaml({"a": [word, {"b": word}], "c": word})) == {
        "a": [word, {"b": word}],
        "c": word,
    }

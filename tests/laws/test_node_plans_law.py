"""For any job: its processes get the same variables and flags on every place, but for what the place declares in `PlaceTraits`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umiak.core.cluster import Role
from umiak.core.job import Job, Replicas, Resource, RoleSpec, Transfer
from umiak.submit import places, registry
from umiak.submit.backend import SubmitContext
from umiak.submit.backends.cloud import layout as cloud
from umiak.submit.backends.kubernetes import manifests
from umiak.submit.backends.kubernetes.settings import KubeSettings, WorkloadKind
from umiak.submit.backends.local import plan as local
from umiak.submit.backends.paddlecloud import rendering
from umiak.submit.backends.ray import plan as ray
from umiak.submit.backends.shared import layout as shared
from umiak.submit.backends.ssh import plan as ssh
from umiak.submit.backends.ssh.settings import SshHost, SshSettings
from umiak.submit.node.plan import environment
from umiak.submit.payload import node_plan
from umiak.submit.payload.node_plan import NodePlan

RUN = "ctr-3f2a9c1b"
OF_PLACES = {"--tee", "--log_dir", "--grace", "--lost_at_start", "--join_timeout"}
"""Flags of `PlaceTraits`. The first two are a place's own; the others stay away where the role's variables say the same."""
COUNTS = {"--nnodes", "--nproc_per_node", "--run_mode", "--server_num", "--trainer_num", "--heter_worker_num"}
"""On one machine they differ: it is one node."""
VARIABLES = ("UMIAK_GRACE", "UMIAK_JOIN_TIMEOUT", "UMIAK_LOST_AT_START", "UMIAK_TEE", "UMIAK_NNODES", "CPU_NUM", "KEY")
CLOUD = """\
[place.lab]
backend = "modelarts"
region = "r1"
pool = "pool-1"
project = "p"
store = "obs://bucket/umiak"
flavor = "f1"
"""

variables = st.dictionaries(st.sampled_from(VARIABLES), st.sampled_from(("1", "60", "fail")), max_size=4)


@st.composite
def roles(draw: st.DrawFn, role: Role) -> RoleSpec:
    least = draw(st.integers(1, 3))
    return RoleSpec(
        role=role,
        nodes=Replicas(least=least, most=least + (draw(st.integers(0, 2)) if role is Role.TRAINER else 0)),
        workers=draw(st.none() | st.integers(1, 3)),
        command=draw(st.sampled_from(((), ("serve.py", "--lr", "1"), ("-m", "serve")))),
        resource=Resource(devices=draw(st.integers(0, 2))),
        env=tuple(draw(variables).items()),
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    kinds = draw(
        st.sampled_from(((Role.TRAINER,), (Role.SERVER, Role.TRAINER), (Role.SERVER, Role.TRAINER, Role.HETER)))
    )
    data = (Transfer(url="hdfs://store/day1", path="data"),)
    return Job(
        name="ctr",
        command=draw(st.sampled_from((("train.py",), ("-m", "train"), ("./-odd", "x")))),
        roles=tuple(draw(roles(kind)) for kind in kinds),
        env=tuple(draw(variables).items()),
        secrets=draw(st.sampled_from(((), ("KEY",)))),
        inputs=draw(st.sampled_from(((), data))),
        outputs=draw(st.sampled_from(((), data))),
        max_restarts=draw(st.integers(0, 2)),
    )


def on_kubernetes(job: Job) -> list[tuple[RoleSpec, NodePlan]]:
    parts = manifests.ClusterParts(namespace="n", kind=WorkloadKind.JOB, launcher_sha256="a", launcher_bytes=1)
    return [(role, manifests.plan_of(job, role, RUN, KubeSettings(), parts)) for role in job.roles]


def on_ray(job: Job) -> list[tuple[RoleSpec, NodePlan]]:
    plans = ray.node_plans(job, RUN)
    return [(role, plans[ray.plan_name(role)]) for role in job.roles]


def on_ssh(job: Job) -> list[tuple[RoleSpec, NodePlan]]:
    found = SshSettings(hosts=(SshHost(label="node0", host="node0"), SshHost(label="node1", host="node1")))
    plans = ssh.plans_of(job, RUN, found, ssh.KnownAtStart(port="1", files="", devices=(0, 0)))
    by_role = {f"node-{number}": job.main_role for number in range(9)}
    for role in job.roles if job.mode.has_servers else ():
        by_role |= {f"{role.role.value}-{number}": role for number in range(99)}
    return [(by_role[name.removesuffix(".json")], plan) for host in plans for name, plan in host.nodes]


def on_shared(job: Job) -> list[tuple[RoleSpec, NodePlan]]:
    run = shared.SharedRun(root="/shared", run_id=RUN)
    made = shared.bundle_of(job, run, shared.info_of(job, run, "/work"), (), ("true",))
    texts = {each.path: each.text for each in made.files if hasattr(each, "text")}
    return [(role, node_plan.from_text(texts[run.file(f"{role.role.value}.json")])) for role in job.roles]


def on_a_cloud(job: Job) -> list[tuple[RoleSpec, NodePlan]]:
    place = places.read([("umiak.toml", CLOUD)], registry.BackendNames()).places["lab"]
    backend = registry.make(place, SubmitContext(environ={}, directory="/work", state_directory="/state"))
    made = cloud.of(job, RUN, backend.settings, launcher_sha256="a", digest="")  # type: ignore[attr-defined]
    texts = dict(made.objects)
    return [(role, node_plan.from_text(texts[made.run_key + cloud.plan_name(role)])) for role in job.roles]


def here(job: Job) -> list[tuple[RoleSpec, NodePlan]]:
    nodes = local.nodes_of(job, RUN, directory="/work", logs="/log")
    return [
        (job.role(launcher.role) or job.main_role if launcher.role else job.main_role, plan) for launcher, plan in nodes
    ]


PLACES: Mapping[str, Callable[[Job], list[tuple[RoleSpec, NodePlan]]]] = {
    "kubernetes": on_kubernetes,
    "ray": on_ray,
    "ssh": on_ssh,
    "slurm and mpi": on_shared,
    "clouds": on_a_cloud,
    "local": here,
}


def flags_of(plan: NodePlan) -> tuple[dict[str, str], tuple[str, ...]]:
    """The flags before the program, and the program."""
    start = next(index for index, word in enumerate(plan.launch) if word in ("-m", "--"))
    return dict(zip(plan.launch[0:start:2], plan.launch[1:start:2], strict=True)), plan.launch[start:]


def of_the_job(job: Job, role: RoleSpec) -> tuple[dict[str, str], tuple[str, ...], dict[str, str]]:
    """Flags, program and variables that follow from the job alone."""
    flags = {"--job_id": RUN}
    if job.max_restarts:
        flags["--max_restart"] = str(job.max_restarts)
    if job.nodes.is_elastic:
        flags["--nnodes"] = str(job.nodes)
    workers = role.workers or role.resource.devices
    if workers and len(job.roles) == 1:
        flags["--nproc_per_node"] = str(workers)
    command = role.command or job.command
    env = {**dict(job.env), **dict(role.env)}
    return (
        flags,
        command if command[0] == "-m" else ("--", *command),
        {k: v for k, v in env.items() if k not in job.secrets},
    )


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=40, deadline=None)
@given(job=jobs())
def test_processes_get_the_same_on_every_place(place: str, job: Job) -> None:
    for role, plan in PLACES[place](job):
        flags, program = flags_of(plan)
        expected, command, env = of_the_job(job, role)
        ignored = OF_PLACES | (COUNTS if place == "local" else set())
        assert {name: text for name, text in flags.items() if name not in ignored} == {
            name: text for name, text in expected.items() if name not in ignored
        }
        assert program == command
        assert dict(plan.env) == env
        assert not ("--grace" in flags and "UMIAK_GRACE" in env)
        assert not ("--join_timeout" in flags and "UMIAK_JOIN_TIMEOUT" in env)
        assert not ("--lost_at_start" in flags and "UMIAK_LOST_AT_START" in env)
        assert flags["--tee"] in ("none", "all")  # else UMIAK_TEE would count here and not elsewhere


@settings(max_examples=40, deadline=None)
@given(job=jobs())
def test_data_is_brought_with_the_variables_of_the_main_role(job: Job) -> None:
    run = shared.SharedRun(root="/shared", run_id=RUN)
    made = shared.bundle_of(job, run, shared.info_of(job, run, "/work"), (), ("true",))
    texts = {each.path: each.text for each in made.files if hasattr(each, "text")}
    for name in (shared.BEFORE, shared.AFTER):
        if run.file(name) in texts:
            plan = node_plan.from_text(texts[run.file(name)])
            assert dict(plan.env) == of_the_job(job, job.main_role)[2]
            assert plan.only_data
            assert not plan.launch


@settings(max_examples=40, deadline=None)
@given(job=jobs())
def test_variables_of_a_role_count_most_under_a_supervisor_too(job: Job) -> None:
    """As on places where `node_start` sets them."""
    plan = local.plan_of(
        job, RUN, directory="/work", logs="/log", python="python3", start=lambda module: ("-m", module)
    )
    for index, (role, _) in enumerate(here(job)):
        environ = environment(plan, index, inherited={"KEY": "inherited"}, master="127.0.0.1:1")
        env = of_the_job(job, role)[2]
        assert {name: environ[name] for name in env} == env


@settings(max_examples=40, deadline=None)
@given(job=jobs())
def test_paddlecloud_has_the_flags_of_the_others(job: Job) -> None:
    """Its nodes get variables by config.ini."""
    flags, program = flags_of(node_plan.from_text(rendering.node_plan_text(job, RUN, "")))
    expected, command, _ = of_the_job(job, job.main_role)
    assert (flags, program) == ({"--tee": "all", **expected}, command)

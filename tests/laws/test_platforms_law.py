"""For any simulated platform, size and rank: what detect() concludes is what was simulated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from umiak.core.cluster import Placement, Role, join_host_port
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace
from umiak.platforms import detect
from umiak.platforms.native import environment_of
from umiak.platforms.slurm import expand
from umiak.testing.environments import IN_A_POD, PER_PROCESS, PLATFORMS, WITH_SERVERS, environment, files, hosts

# These tell no rank, because launchers agree on it, or no number of nodes.
WITHOUT_RANK = ("kubeflow-paddlejob",)
WITHOUT_COUNT = ("indexed-job",)
ONE_PROCESS_EACH = ("torchrun", "paddle-launch", "jax", "dmlc")

few = effort(0.2)  # of each platform
many = effort(1)


@st.composite
def sites(draw: st.DrawFn, least: int = 1) -> tuple[int, int]:
    nodes = draw(st.integers(least, 24))
    return nodes, draw(st.integers(0, nodes - 1))


@pytest.mark.parametrize("platform", PLATFORMS)
@few
@given(site=sites())
def test_every_node_finds_its_place(platform: str, site: tuple[int, int]) -> None:
    nodes, rank = site
    placement = detect(environment(platform, nodes, rank), read=files(platform, nodes).get)
    assert placement is not None
    assert placement.platform == platform
    assert placement.nodes == (None if platform in WITHOUT_COUNT else nodes)
    assert placement.rank == (None if platform in WITHOUT_RANK else rank)
    assert placement.hosts == hosts(platform, nodes)
    assert placement.role is None
    assert placement.server_endpoints == placement.trainer_endpoints == ()
    assert (placement.workers == 1) == (platform in ONE_PROCESS_EACH)


@pytest.mark.parametrize("platform", PLATFORMS)
@few
@given(site=sites(least=2), data=st.data())
def test_all_nodes_go_to_the_same_meeting_point(platform: str, site: tuple[int, int], data: st.DataObject) -> None:
    nodes, rank = site
    other = data.draw(st.integers(0, nodes - 1))
    read = files(platform, nodes).get
    one, two = (detect(environment(platform, nodes, number), read=read) for number in (rank, other))
    assert one is not None
    assert two is not None
    # A Kubeflow PaddleJob's first pod is told its own address, where the others are told its name.
    assert one.master == two.master or (platform == "kubeflow-paddlejob" and 0 in (rank, other))
    told = hosts(platform, nodes)
    assert not told or (one.master or "").rpartition(":")[0] == told[0]


@pytest.mark.parametrize("platform", PER_PROCESS)
@few
@given(nodes=st.integers(1, 12), per_node=st.integers(2, 8), data=st.data())
def test_every_process_finds_its_place(platform: str, nodes: int, per_node: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, nodes * per_node - 1))
    placement = detect(environment(platform, nodes, rank, per_node=per_node), read=files(platform, nodes).get)
    assert placement is not None
    assert (placement.platform, placement.nodes, placement.rank) == (platform, nodes * per_node, rank)
    assert (placement.workers, placement.hosts) == (1, ())
    assert (placement.local_rank, placement.local_size) == (rank % per_node, per_node)


@pytest.mark.parametrize("platform", WITH_SERVERS)
@few
@given(servers=st.integers(1, 12), trainers=st.integers(1, 12), data=st.data())
def test_servers_come_first(platform: str, servers: int, trainers: int, data: st.DataObject) -> None:
    nodes = servers + trainers
    rank = data.draw(st.integers(0, nodes - 1))
    placement = detect(environment(platform, nodes, rank, servers=servers))
    assert placement is not None
    told = hosts(platform, nodes, servers=servers)
    assert (placement.platform, placement.nodes, placement.rank, placement.hosts) == (platform, nodes, rank, told)
    assert placement.role is (Role.SERVER if rank < servers else Role.TRAINER)
    assert [item.rpartition(":")[0] for item in placement.server_endpoints] == list(told[:servers])
    assert [item.rpartition(":")[0] for item in placement.trainer_endpoints] == list(told[servers:])
    assert placement.master not in placement.server_endpoints + placement.trainer_endpoints


@pytest.mark.parametrize("platform", PLATFORMS)
@few
@given(site=sites(least=2), data=st.data())
def test_a_spoiled_variable_never_leads_to_another_place(
    platform: str, site: tuple[int, int], data: st.DataObject
) -> None:
    nodes, rank = site
    environ = environment(platform, nodes, rank)
    name = data.draw(st.sampled_from(sorted(environ.keys() - IN_A_POD.keys())))
    environ[name] = data.draw(
        st.sampled_from(["", "-1", "x", "9" * 20, "9" * 5000, "{", "[]", "{}", "a,a", "n[3-1]", "٣"])
    )
    problems: tuple[Problem, ...] = ()
    try:
        placement = detect(environ, only=platform, read=files(platform, nodes).get)
        assert placement is not None
        assert placement.nodes in (nodes, None)
        assert placement.rank in (rank, None)
    except UmiakError as error:
        problems = error.problems
    assert all(problem.code.startswith("UM-PLATFORM-0") for problem in problems)
    assert all(problem.where and problem.hint and len(problem.what) < 300 for problem in problems)


HOST = st.one_of(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9](\.[a-z]{1,5})?", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
PORT = st.integers(1, 65535)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """Any placement without contradictions."""
    count = draw(st.integers(1, 6))
    maybe = st.booleans()
    listed = tuple(draw(st.lists(HOST, min_size=count, max_size=count, unique=True)))
    rank = draw(st.integers(0, count - 1))
    role = draw(st.one_of(st.none(), st.sampled_from(Role)))
    split = draw(st.integers(0, count))
    port = draw(PORT)
    endpoints = tuple(join_host_port(host, port) for host in listed) if role is not None else ()
    local_size = draw(st.integers(1, 4))
    has_local = draw(maybe)
    has_rank = draw(maybe)
    master = draw(st.one_of(st.none(), st.just("etcd://10.0.0.1:2379"), st.just(join_host_port(listed[0], port))))
    return Placement(
        platform="any",
        reason="any",
        nodes=count,
        rank=rank if has_rank else None,
        hosts=listed if draw(maybe) else (),
        master=master,
        host=listed[rank] if draw(maybe) else None,
        job_id=draw(st.one_of(st.none(), st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True))),
        workers=draw(st.one_of(st.none(), st.integers(1, 16))),
        role=role,
        server_endpoints=endpoints[:split],
        trainer_endpoints=endpoints[split:],
        local_rank=draw(st.integers(0, local_size - 1)) if has_local else None,
        local_size=local_size if has_local else None,
    )


@many
@given(placement=placements())
def test_the_native_contract_reads_what_it_writes(placement: Placement) -> None:
    found = detect(environment_of(placement))
    assert found is not None
    assert found.platform == "umiak"
    assert replace(found, platform=placement.platform, reason=placement.reason) == placement


@many
@given(first=st.integers(0, 1500), count=st.integers(1, 60), width=st.integers(1, 6))
def test_a_range_expands_to_its_numbers(first: int, count: int, width: int) -> None:
    last = first + count - 1
    found = expand(f"gpu-[{first:0{width}d}-{last:0{width}d}].x,login")
    assert found == (*(f"gpu-{number:0{width}d}.x" for number in range(first, last + 1)), "login")


@many
@given(st.text(alphabet="n0123456789[],-x", max_size=20))
def test_any_text_expands_or_is_refused(text: str) -> None:
    try:
        found = expand(text)
    except ValueError:
        return
    assert found
    assert not any(letter in host for host in found for letter in "[],")

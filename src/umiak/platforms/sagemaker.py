"""Amazon SageMaker: the hosts as JSON, and this one's name. A decider.

SM_HOSTS lists all hosts (``["algo-1", "algo-2"]``) and SM_CURRENT_HOST is one of them; its place in the list is the
rank. There are no ports. A heterogeneous cluster has named instance groups in SM_RESOURCE_CONFIG; where one of them is
named like a parameter server, groups are roles.
"""

from __future__ import annotations

from umiak.core.cluster import Placement, Role
from umiak.platforms import roles
from umiak.platforms.reading import master_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


def place(reader: Reader) -> Placement | None:
    """A container of a SageMaker training job."""
    hosts = reader.json_strings("SM_HOSTS")
    own = reader.text("SM_CURRENT_HOST")
    if not hosts:
        reader.wrong("008", "SM_HOSTS", "no hosts in it")
    if own is None:
        reader.wrong("011", "SM_CURRENT_HOST", "not set, but SM_HOSTS is")
    reader.raise_problems()
    assert own is not None
    groups = _groups(reader)
    mine = next(((group, members) for group, members in groups.items() if own in members), None)
    reason = f"SM_CURRENT_HOST={own} of {len(hosts)} in SM_HOSTS"
    job_id = reader.text("TRAINING_JOB_NAME")
    if mine is not None and any(roles.role_of(group) is Role.SERVER for group in groups):
        group, members = mine
        names = ("SM_RESOURCE_CONFIG", "SM_CURRENT_HOST", "SM_RESOURCE_CONFIG")
        return roles.place(
            reader, groups, own=group, index=members.index(own), names=names, reason=reason, job_id=job_id
        )
    placement = Placement(
        platform=reader.platform,
        reason=reason,
        nodes=len(hosts),
        rank=hosts.index(own) if own in hosts else None,
        hosts=hosts,
        master=master_endpoint(hosts[0]),
        host=own,
        job_id=job_id,
    )
    return reader.settle(placement, rank="SM_CURRENT_HOST", nodes="SM_HOSTS", hosts="SM_HOSTS", host="SM_CURRENT_HOST")


def _groups(reader: Reader) -> dict[str, tuple[str, ...]]:
    if reader.text("SM_RESOURCE_CONFIG") is None:
        return {}
    listed = reader.mapping("SM_RESOURCE_CONFIG").get("instance_groups")
    return {
        str(group.get("instance_group_name")): reader.strings(group.get("hosts"), "SM_RESOURCE_CONFIG")
        for group in (listed if isinstance(listed, list) else [])
        if isinstance(group, dict)
    }

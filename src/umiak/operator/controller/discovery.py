"""Which optional kinds a cluster serves: PodGroups of gang schedulers, Workloads of Kueue. An adapter."""

from __future__ import annotations

import logging

from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.operator.controller.kinds import POD_GROUP, ServedKind
from umiak.operator.policies.gangs import DRIVERS
from umiak.operator.values import KUEUE_GROUP, VERSIONS, WORKLOAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.kube.async_api import AsyncKubeApi

LOG = logging.getLogger("umiak.operator")
PERIOD_S = 60.0


class ApiDiscovery:
    """What was found, looked for again from time to time."""

    period_s = PERIOD_S

    def __init__(self, api: AsyncKubeApi, gang: str, *, with_kueue: bool = False) -> None:
        self._api = api
        # Of gang schedulers the one that the operator was started with; it has rights on no others.
        groups = [driver.api_version.partition("/")[0] for driver in DRIVERS.values() if driver.name == gang]
        self._wanted: dict[str, tuple[str, str, tuple[str, ...]]] = {
            f"{group}/{POD_GROUP}": (group, POD_GROUP, ()) for group in groups
        }
        if with_kueue:
            self._wanted[WORKLOAD] = (KUEUE_GROUP, "Workload", VERSIONS)
        self._lacking: set[str] = set()
        """Kinds of which the cluster has said that it does not serve them."""
        self._found: dict[str, ServedKind] = {}

    def kinds(self) -> list[ServedKind]:
        return list(self._found.values())

    def served(self, kind: str) -> ServedKind | None:
        return self._found.get(kind)

    @property
    def kueue(self) -> str | None:
        """The version of Kueue's API; empty: there is none; None: the cluster has not said."""
        if WORKLOAD in self._found:
            return self._found[WORKLOAD].version
        return "" if WORKLOAD in self._lacking or WORKLOAD not in self._wanted else None

    async def refresh(self) -> list[ServedKind]:
        """Look again. The result is what is new."""
        new = []
        for name, (group, kind, versions) in self._wanted.items():
            if name in self._found:
                continue
            try:
                served = await self._look(group, kind, versions)
            except (KubeRefused, KubeSilent) as error:
                LOG.debug("%s: %s", group, error)
                continue
            if served is not None:
                self._found[name] = served
                new.append(served)
            else:
                self._lacking.add(name)
        return new

    async def _look(self, group: str, kind: str, known: tuple[str, ...]) -> ServedKind | None:
        """The kind in the first version that is served, of those that are known if not all are alike."""
        try:
            versions = (await self._api.get(f"/apis/{group}")).get("versions") or ()
        except KubeRefused as refused:
            if refused.status == 404:
                return None
            raise
        served = [str(each.get("version") or "") for each in versions]
        for version in [each for each in known if each in served] if known else served:
            resources = (await self._api.get(f"/apis/{group}/{version}")).get("resources") or ()
            for resource in resources:
                if resource.get("kind") == kind and "/" not in str(resource.get("name")):
                    plural = str(resource["name"])
                    return ServedKind(kind=f"{group}/{kind}", group=group, version=version, plural=plural)
        return None

"""Which optional kinds a cluster serves: PodGroups of gang schedulers. An adapter."""

from __future__ import annotations

import logging

from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.operator.controller.kinds import POD_GROUP, ServedKind
from umiak.operator.policies.gangs import DRIVERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.kube.async_api import AsyncKubeApi

LOG = logging.getLogger("umiak.operator")
PERIOD_S = 60.0


class Discovery:
    """What was found, looked for again from time to time."""

    period_s = PERIOD_S

    def __init__(self, api: AsyncKubeApi, gang: str) -> None:
        self._api = api
        self._groups = [driver.api_version.partition("/")[0] for driver in DRIVERS.values() if driver.name == gang]
        """Those of the scheduler that the operator was started with; it has rights on no others."""
        self._found: dict[str, ServedKind] = {}

    def kinds(self) -> list[ServedKind]:
        return list(self._found.values())

    def served(self, kind: str) -> ServedKind | None:
        return self._found.get(kind)

    async def refresh(self) -> list[ServedKind]:
        """Look again. The result is what is new."""
        new = []
        for group in self._groups:
            name = f"{group}/{POD_GROUP}"
            if name in self._found:
                continue
            try:
                found = await self._pod_groups(group, name)
            except (KubeRefused, KubeSilent) as error:
                LOG.debug("%s: %s", group, error)
                continue
            if found is not None:
                self._found[name] = found
                new.append(found)
        return new

    async def _pod_groups(self, group: str, name: str) -> ServedKind | None:
        try:
            versions = (await self._api.get(f"/apis/{group}")).get("versions") or ()
        except KubeRefused as refused:
            if refused.status == 404:
                return None
            raise
        for each in versions:
            version = str(each.get("version") or "")
            resources = (await self._api.get(f"/apis/{group}/{version}")).get("resources") or ()
            for resource in resources:
                if resource.get("kind") == POD_GROUP and "/" not in str(resource.get("name")):
                    return ServedKind(kind=name, group=group, version=version, plural=str(resource["name"]))
        return None

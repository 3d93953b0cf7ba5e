"""All watches of the operator: jobs, their children of today and of the old operator, nodes, PodGroups, Workloads.
An adapter.
"""

from __future__ import annotations

import asyncio
import logging

from umiak.operator.controller.kinds import CHILDREN, JOBS, KUBEFLOW_JOBS, NODES, ServedKind
from umiak.operator.controller.reflector import Reflector, Sink
from umiak.operator.controller.seen_objects import version_of
from umiak.operator.objects.names import JOB_NAME
from umiak.paddlejob.names import RES_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine

    from umiak.core.json_types import JsonMapping
    from umiak.kube.async_api import AsyncKubeApi
    from umiak.operator.controller.cache import ClusterCache
    from umiak.operator.controller.discovery import ApiDiscovery
    from umiak.operator.controller.metrics import OperatorMetrics
    from umiak.operator.options import OperatorOptions

LOG = logging.getLogger("umiak.operator")
WATCHES = 10
"""Connections that the watches of one more namespace need at most."""


class ClusterWatch:
    """Keeps the cache as the cluster is."""

    def __init__(
        self,
        api: AsyncKubeApi,
        options: OperatorOptions,
        cache: ClusterCache,
        discovery: ApiDiscovery,
        metrics: OperatorMetrics,
    ) -> None:
        self._api = api
        self._options = options
        self.cache = cache
        self._discovery = discovery
        self._metrics = metrics
        self._reflectors: list[Reflector] = []
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> list[asyncio.Task[None]]:
        """Read the whole cluster. The result are the loops that go on with it, which end with an error only;
        also if this is cancelled.
        """
        await self._discovery.refresh()
        self._loops += [asyncio.ensure_future(each.run()) for each in self._watched()]
        for each in self._reflectors:
            await _until(each.synced.wait(), self._loops)
        self._loops.append(asyncio.ensure_future(self._discover()))
        return self._loops

    async def stop(self) -> None:
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    def troubles(self) -> list[str]:
        """What can't be read at the moment."""
        return [f"{each.path}: {each.trouble}" for each in self._reflectors if each.trouble]

    def _watched(self) -> list[Reflector]:
        kinds = [JOBS, KUBEFLOW_JOBS] if self._options.with_kubeflow else [JOBS]
        for namespace in self._namespaces:
            for kind in kinds:
                sink = self._job_sink(kind.group, namespace)
                self._reflectors.append(self._reflector(kind.collection(namespace), sink))
        for kind in (*CHILDREN, *self._discovery.kinds()):
            self._watch_children(kind)
        old = f"{RES_NAME},!{JOB_NAME}"
        for namespace in self._namespaces:
            for kind in CHILDREN:
                sink = self._child_sink(kind.kind, namespace, is_old=True)
                self._reflectors.append(self._reflector(kind.collection(namespace), sink, old))
        sink = Sink(
            put=self.cache.put_node,
            remove=lambda body: self.cache.remove_node(body["metadata"]["name"]),
            listed=lambda found, _version: self.cache.listed_nodes(found),
        )
        self._reflectors.append(self._reflector(NODES.collection(), sink, is_optional=True))
        return self._reflectors

    @property
    def _namespaces(self) -> tuple[str, ...]:
        """One word for each collection that is watched; the empty one means all namespaces."""
        return self._options.namespaces or ("",)

    def _watch_children(self, kind: ServedKind) -> list[Reflector]:
        reflectors = []
        for namespace in self._namespaces:
            path, sink = kind.collection(namespace), self._child_sink(kind.kind, namespace)
            reflectors.append(self._reflector(path, sink, JOB_NAME, is_optional=kind not in CHILDREN))
        self._reflectors += reflectors
        return reflectors

    def _reflector(self, path: str, sink: Sink, selector: str = "", *, is_optional: bool = False) -> Reflector:
        def restarted(why: str) -> None:
            self._metrics.count("umiak_operator_watch_restarts_total", path=path, cause=why)

        return Reflector(self._api, path, sink, selector=selector, is_optional=is_optional, restarted=restarted)

    def _job_sink(self, group: str, namespace: str) -> Sink:
        def remove(body: JsonMapping) -> None:
            metadata = body["metadata"]
            self.cache.remove_job(group, metadata.get("namespace") or "", metadata["name"], metadata.get("uid") or "")

        return Sink(
            put=lambda body: self.cache.put_job(group, body),
            remove=remove,
            listed=lambda found, version: self.cache.listed_jobs(group, found, version, namespace),
        )

    def _child_sink(self, kind: str, namespace: str, *, is_old: bool = False) -> Sink:
        def remove(body: JsonMapping) -> None:
            metadata = body["metadata"]
            self.cache.remove(
                kind,
                metadata.get("namespace") or "",
                metadata["name"],
                uid=metadata.get("uid") or "",
                version=version_of(body),
            )

        return Sink(
            put=lambda body: self.cache.put(kind, body),
            remove=remove,
            listed=lambda found, version: self.cache.listed(kind, found, version, namespace, is_old=is_old),
        )

    async def _discover(self) -> None:
        """Gang scheduling and Kueue that are installed later are noticed."""
        while True:
            await asyncio.sleep(self._discovery.period_s)
            for kind in await self._discovery.refresh():
                LOG.info("this cluster serves %s now", kind.kind)
                reflectors = self._watch_children(kind)
                self._loops += [asyncio.ensure_future(each.run()) for each in reflectors]
                for each in reflectors:
                    await each.synced.wait()
                self.cache.tell_all()


async def _until(wanted: Coroutine[object, None, object], loops: list[asyncio.Task[None]]) -> None:
    """Wait for something, unless one of the loops ends with an error first."""
    task = asyncio.ensure_future(wanted)
    done, _ = await asyncio.wait({task, *loops}, return_when=asyncio.FIRST_COMPLETED)
    for each in done - {task}:
        task.cancel()
        each.result()

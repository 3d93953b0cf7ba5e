"""Which operator acts, of several: the one that holds a Lease. An adapter.

The name of the lease is the old operator's, so that it and this one never act at the same time. The holder renews it
every ``RETRY_S``; if it could not for ``RENEW_S``, it stops acting, well before another may take the lease after
``LEASE_S``. How long a lease has not changed is measured with the own clock alone: clocks of machines differ.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time

from umiak.adapters.stores.http_retry import chance
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.operator.cancellation import ended, within
from umiak.operator.controller.kinds import LEASES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from umiak.core.json_types import JsonObject
    from umiak.kube.async_api import AsyncKubeApi

LOG = logging.getLogger("umiak.operator")
LEASE_NAME = "b2a304f2.paddlepaddle.org"
LEASE_S = 12
RENEW_S = 8.0
RETRY_S = 2.0


class LeaseElection:
    """One candidate."""

    def __init__(
        self,
        api: AsyncKubeApi,
        namespace: str,
        identity: str,
        *,
        name: str = LEASE_NAME,
        lease_s: int = LEASE_S,
        renew_s: float = RENEW_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self.identity = identity
        self._name = name
        self._lease_s, self._renew_s, self._retry_s = lease_s, renew_s, retry_s
        self._seen = ""
        """The lease's version when it was looked at last."""
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self.is_leader = False
        self.holder = ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Lead whenever this candidate is elected, for ever. ``lead`` is cancelled as soon as the lease may be lost."""
        while True:
            await self._elected()
            LOG.info("elected: %s holds the lease %s/%s", self.identity, self._namespace, self._name)
            self.is_leader = True
            work = asyncio.ensure_future(lead())
            keeping = asyncio.ensure_future(self._keep())
            try:
                done, _ = await asyncio.wait({work, keeping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.is_leader = False
                await ended(work, keeping)
            for task in done:
                task.result()
            LOG.warning("the lease %s/%s is lost: not acting any more", self._namespace, self._name)

    async def give_up(self) -> None:
        """At a clean end, so that the next one need not wait."""
        if self.holder != self.identity:
            return
        try:
            lease = await within(self._api.get(self._path()), 3.0)
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self.identity:
                lease["spec"] = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _stamp()}
                await within(self._api.replace(self._path(), lease), 3.0)
                self.holder = ""
        except (KubeRefused, KubeSilent, asyncio.TimeoutError) as error:
            LOG.warning("the lease was not given up: %s", error)

    async def _elected(self) -> None:
        reason = ""
        while True:
            try:
                if await self._try():
                    return
                if self.holder != reason:
                    reason = self.holder
                    LOG.info("waiting: %s holds the lease", reason)
            except (KubeRefused, KubeSilent, asyncio.TimeoutError) as error:
                if not (isinstance(error, KubeRefused) and error.status == 409):
                    LOG.warning("the lease can't be read: %s", error)
            await asyncio.sleep(self._retry_s * (0.8 + 0.4 * chance()))

    async def _keep(self) -> None:
        """Returns when the lease may be lost."""
        while True:
            await asyncio.sleep(self._retry_s)
            left_s = self._renew_s - (time.monotonic() - self._renewed_at)
            if left_s <= 0:
                return
            try:
                if not await within(self._try(), left_s):
                    return
            except (KubeRefused, KubeSilent, asyncio.TimeoutError) as error:
                LOG.warning("the lease was not renewed: %s", error or "no answer")

    async def _try(self) -> bool:
        """Take the lease or renew it. Whether it is ours."""
        began = time.monotonic()
        try:
            lease = await self._api.get(self._path())
        except KubeRefused as refused:
            if refused.status != 404:
                raise
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": self._spec({}, is_new=True),
            }
            await self._api.create(LEASES.collection(self._namespace), body)
            self._won(began)
            return True
        spec = lease.get("spec") or {}
        self.holder = str(spec.get("holderIdentity") or "")
        version = str(lease["metadata"].get("resourceVersion"))
        if version != self._seen:
            self._seen, self._seen_at = version, began
        if self.holder not in ("", self.identity):
            lasts_s = max(float(spec.get("leaseDurationSeconds") or self._lease_s), 1.0)
            if time.monotonic() - self._seen_at < lasts_s:
                return False
        lease["spec"] = self._spec(spec, is_new=self.holder != self.identity)
        answer = await self._api.replace(self._path(), lease)
        self._seen, self._seen_at = str(answer["metadata"].get("resourceVersion")), began
        self._won(began)
        return True

    def _won(self, began: float) -> None:
        self._renewed_at = began  # of the request, not of its answer: the lease may count from there
        self.holder = self.identity

    def _spec(self, old: JsonObject, *, is_new: bool) -> JsonObject:
        now = _stamp()
        changes = int(old.get("leaseTransitions") or 0) + (1 if is_new and old else 0)
        acquired = now if is_new else old.get("acquireTime") or now
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._lease_s,
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": changes,
        }

    def _path(self) -> str:
        return LEASES.path(self._namespace, self._name)


def _stamp() -> str:
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

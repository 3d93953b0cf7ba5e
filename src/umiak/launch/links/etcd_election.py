"""Electing the master through etcd's JSON gateway: lease, compare-and-set, watch. An adapter.

The key ``/umiak/<job>/master`` holds the address of the job's master and hangs on a lease that the master refreshes. A
node that looks for the master reads it; where there is none, it creates the key if nobody else does in the same moment.
When the master's launcher dies, the key goes with the lease, and a node that watches it tries again.

etcd is asked who leads, nothing more: the launchers talk to one another directly, so a job goes on while etcd is
restarted. Several endpoints are tried in turn. What must never happen, two masters of two halves, does not rest on this
key but on the rule in `umiak.launch.quorum`.
"""

from __future__ import annotations

import base64
import json

from umiak.core.names import is_host, is_port
from umiak.launch.links import http_post

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.adapters.loop import Loop, Timer
    from umiak.core.json_types import JsonObject

RETRY_S = 0.5
SAME_MASTER_AGAIN_S = 2.0
RIVAL_AGAIN_S = 0.5


class Election:
    """One node's part in the election of its job's master."""

    def __init__(self, loop: Loop, endpoints: tuple[tuple[str, int], ...], job_id: str, *, lease_s: int) -> None:
        self._loop = loop
        self._endpoints = endpoints
        self._at = 0
        self._key = _text64(f"/umiak/{job_id}/master")
        self._lease_s = lease_s
        self._lease: str | None = None
        self._value = ""
        self._leads = False
        self._gone: tuple[str, int] | None = None
        self._last_told: tuple[str, int] | None = None
        self._watch: http_post.Post | None = None
        self._refresh: Timer | None = None
        self._wait: Timer | None = None
        self._said_down = self._said_rival = False
        self.own_host = ""
        """This machine's address on the route to etcd."""
        self.on_elected: Callable[[], None] = lambda: None
        self.on_master: Callable[[str, int], None] = lambda _host, _port: None
        self.on_rival: Callable[[str, int], None] = lambda _host, _port: None
        """This node leads, but its key was lost, and that node has put its own there."""
        self.on_trouble: Callable[[str], None] = lambda _text: None

    def campaign(self, host: str, port: int, *, gone: tuple[str, int] | None = None) -> None:
        """Become the master at this address (an empty host: the address on the route to etcd), or hear who is.

        ``gone``: the master at that address is known to be dead, so its key need not fade before it is replaced.
        """
        self._stop_waiting()
        self._gone = gone

        def granted(answer: JsonObject) -> None:
            self._lease = str(answer.get("ID", ""))
            self._keep_refreshing()
            self._value = json.dumps({"host": host or self.own_host, "port": port})
            self._compete()

        if self._lease:
            self._compete()
        else:
            self._ask("/v3/lease/grant", {"TTL": self._lease_s}, granted)

    def resign(self) -> None:
        """The job is over: take the key away at once, instead of letting it fade. One short try."""
        if self._lease:
            self._send("/v3/lease/revoke", {"ID": self._lease}, lambda _answer: None, lambda _why: None)
            self._lease = None
        self._leads = False
        if self._refresh:
            self._refresh.cancel()
        self._stop_waiting()

    def _compete(self, instead_of: str = "0") -> None:
        """Put our address there if the key is absent, or as it was at this revision."""
        put = {"requestPut": {"key": self._key, "value": _text64(self._value), "lease": self._lease}}
        same = {"key": self._key, "target": "MOD", "result": "EQUAL", "modRevision": instead_of}
        look = {"requestRange": {"key": self._key}}

        def decided(answer: JsonObject) -> None:
            if answer.get("succeeded"):
                self._won()
                return
            pairs = answer["responses"][0].get("response_range", {}).get("kvs", [])
            if not pairs:
                self._compete()
            elif str(pairs[0].get("lease")) == self._lease:
                self._won()
            else:
                self._lost_to(pairs[0])

        self._ask("/v3/kv/txn", {"compare": [same], "success": [put], "failure": [look]}, decided)

    def _won(self) -> None:
        if not self._leads:
            self._leads = True
            self.on_elected()

    def _lost_to(self, pair: JsonObject) -> None:
        try:
            place = json.loads(base64.b64decode(pair["value"]))
            master = (str(place["host"]), int(place["port"]))
            known = is_host(master[0]) and is_port(master[1])
        except (ValueError, KeyError, TypeError, OverflowError):
            known = False
        if not known:
            self.on_trouble("the master's key in etcd holds no address; waiting for it to change")
            self._wait_for_change(pair)
            return
        if self._leads:
            self._has_rival(master)
        elif master == self._gone:
            self._compete(instead_of=str(pair["mod_revision"]))
        elif master == self._last_told:
            # It was tried a moment ago, in vain. Wait until its key fades; now and then it is worth another try.
            self._wait_for_change(pair)
            self._wait = self._loop.after(SAME_MASTER_AGAIN_S, lambda: self._tell(master))
        else:
            self._tell(master)

    def _has_rival(self, rival: tuple[str, int]) -> None:
        """The key was lost while etcd could not be reached.
        The node that took it is told, and it is tried until it is free.
        """
        if not self._said_rival:
            self._said_rival = True
            self.on_trouble(f"the master's key in etcd was lost, and {rival[0]} has taken it; the job is led from here")
        self.on_rival(*rival)
        self._stop_waiting()
        self._wait = self._loop.after(RIVAL_AGAIN_S, self._compete_again)

    def _tell(self, master: tuple[str, int]) -> None:
        self._stop_waiting()
        self._last_told = master
        self.on_master(*master)

    def _wait_for_change(self, pair: JsonObject) -> None:
        request = {"create_request": {"key": self._key, "start_revision": str(int(pair["mod_revision"]) + 1)}}

        def came(_status: int, answer: object) -> None:
            if isinstance(answer, dict) and answer.get("result", {}).get("events"):
                self._stop_waiting()
                self._compete()

        def ended(_why: str) -> None:
            self._watch = None
            self._next_endpoint()
            self._wait = self._wait or self._loop.after(RETRY_S, self._compete_again)

        self._watch = http_post.Post(
            self._loop, self._endpoint, "/v3/watch", request, on_answer=came, on_failed=ended, stream=True
        )

    def _compete_again(self) -> None:
        self._wait = None
        self._compete()

    def _stop_waiting(self) -> None:
        if self._watch:
            self._watch.cancel()
            self._watch = None
        if self._wait:
            self._wait.cancel()
            self._wait = None

    def _keep_refreshing(self) -> None:
        if self._refresh:
            self._refresh.cancel()
        self._refresh = self._loop.after(self._lease_s / 3, self._refresh_lease)

    def _refresh_lease(self) -> None:
        def refreshed(answer: JsonObject) -> None:
            self._keep_refreshing()
            if int(answer.get("result", {}).get("TTL", 0)) <= 0:
                # It ran out while etcd could not be reached. Take a new one, and the key with it if we lead.
                self._lease = None
                self._renew()

        def failed(_why: str) -> None:
            self._next_endpoint()
            self._refresh = self._loop.after(RETRY_S, self._refresh_lease)

        if self._lease:
            self._send("/v3/lease/keepalive", {"ID": self._lease}, refreshed, failed)

    def _renew(self) -> None:
        def granted(answer: JsonObject) -> None:
            self._lease = str(answer.get("ID", ""))
            if self._leads:
                self._compete()

        self._ask("/v3/lease/grant", {"TTL": self._lease_s}, granted)

    # ---- asking etcd

    @property
    def _endpoint(self) -> tuple[str, int]:
        return self._endpoints[self._at]

    def _next_endpoint(self) -> None:
        self._at = (self._at + 1) % len(self._endpoints)

    def _ask(self, path: str, body: object, then: Callable[[JsonObject], None]) -> None:
        """Ask until an answer comes: another endpoint each time."""

        def failed(why: str) -> None:
            if not self._said_down:
                self._said_down = True
                host, port = self._endpoint
                self.on_trouble(f"etcd at {host}:{port} does not answer ({why}), trying again")
            self._next_endpoint()
            self._loop.after(RETRY_S, lambda: self._ask(path, body, then))

        self._send(path, body, then, failed)

    def _send(self, path: str, body: object, then: Callable[[JsonObject], None], failed: Callable[[str], None]) -> None:
        def answered(status: int, answer: object) -> None:
            if status == 200 and isinstance(answer, dict) and "error" not in answer:
                self._said_down = False
                self.own_host = post.local_host
                then(answer)
            else:
                failed(f"status {status}: {answer}")

        post = http_post.Post(self._loop, self._endpoint, path, body, on_answer=answered, on_failed=failed)


def _text64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

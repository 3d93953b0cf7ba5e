"""Asks etcd what an elastic job needs to know. An adapter. What it writes is gone when it ends, or with its lease."""

from __future__ import annotations

import base64
import json
import os
import statistics
import time

from umiak.core.cluster import join_host_port
from umiak.doctor.facts import ElasticFacts, EtcdEndpointFacts, EtcdFacts
from umiak.doctor.gathering.etcd_requests import EtcdRefused, ask, in_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.doctor.request import DoctorRequest

READS = 5
ANSWER_S = 2.0
LEASE_S = 10


def etcd(request: DoctorRequest, _limit_s: float) -> EtcdFacts:
    """Each endpoint, and a key that is written through the first one that answers."""
    endpoints = tuple(_endpoint(host, port) for host, port in request.etcd)
    for (host, port), told in zip(request.etcd, endpoints, strict=True):
        if not told.error:
            error = _write(host, port)
            return EtcdFacts(endpoints=endpoints, write_error=error, wrote=not error)
    return EtcdFacts(endpoints=endpoints)


def elastic(request: DoctorRequest, _limit_s: float) -> ElasticFacts:
    """Whether a job of this name is led by somebody already."""
    masters = [_master(host, port, request.job_id) for host, port in request.etcd]
    return next((each for each in masters if not each.etcd_error), masters[0] if masters else ElasticFacts())


def _master(host: str, port: int, job_id: str) -> ElasticFacts:
    try:
        answer = ask(host, port, "/v3/kv/range", {"key": in_base64(f"/umiak/{job_id}/master")}, timeout_s=ANSWER_S)
    except EtcdRefused as refused:
        return ElasticFacts(etcd_error=str(refused))
    pairs = answer.get("kvs") or []
    return ElasticFacts(master_of_job=_address(pairs[0]) if pairs else "")


def _endpoint(host: str, port: int) -> EtcdEndpointFacts:
    name = join_host_port(host, port)
    try:
        version = ask(host, port, "/version", timeout_s=ANSWER_S)
        health = ask(host, port, "/health", timeout_s=ANSWER_S)
    except EtcdRefused as refused:
        return EtcdEndpointFacts(endpoint=name, error=str(refused))
    return EtcdEndpointFacts(
        endpoint=name,
        version=str(version.get("etcdserver", "")) if isinstance(version, dict) else "",
        healthy=isinstance(health, dict) and str(health.get("health")).lower() == "true",
        health_text=str(health.get("reason", "")) if isinstance(health, dict) else "",
        latency_s=round(statistics.median(_read_s(host, port) for _ in range(READS)), 5),
    )


def _read_s(host: str, port: int) -> float:
    """How long a read takes. Whether it is allowed is seen when a key is written."""
    begun = time.monotonic()
    try:
        ask(host, port, "/v3/kv/range", {"key": in_base64("/umiak/doctor")}, timeout_s=ANSWER_S)
    except EtcdRefused:
        pass
    return time.monotonic() - begun


def _write(host: str, port: int) -> str:
    """What an election does: a lease, a key that hangs on it, and both taken back.
    Empty if it worked, otherwise why not.
    """
    key = in_base64(f"/umiak/doctor/{os.urandom(6).hex()}")
    lease: Any = None
    try:
        lease = ask(host, port, "/v3/lease/grant", {"TTL": LEASE_S}, timeout_s=ANSWER_S).get("ID")
        put = {"key": key, "value": in_base64("doctor"), "lease": lease}
        ask(host, port, "/v3/kv/put", put, timeout_s=ANSWER_S)
    except EtcdRefused as refused:
        return str(refused)
    finally:
        if lease:
            try:
                ask(host, port, "/v3/lease/revoke", {"ID": lease}, timeout_s=ANSWER_S)
            except EtcdRefused:
                pass
    return ""


def _address(pair: JsonObject) -> str:
    try:
        data = json.loads(base64.b64decode(pair["value"]))
        return join_host_port(str(data["host"]), int(data["port"]))
    except (ValueError, KeyError, TypeError):
        return "somebody"

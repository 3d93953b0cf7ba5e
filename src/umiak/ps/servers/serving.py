"""A server's process: it serves until every trainer is done, or the launcher ends it. An adapter.

Under `umiak launch` it waits for the launcher also when every trainer is done.

exit status   0 the trainers are done, or SIGTERM came     1 a trainer was lost for good, or the log can't be written
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING

import umiak_native

import umiak
from umiak.core.cluster import join_host_port
from umiak.core.problem import Exit, Problem
from umiak.ps import environment
from umiak.ps.errors import BadRequest, bad
from umiak.ps.servers import metrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from umiak.core.json_types import JsonObject
    from umiak.ps.environment import PsSeat
    from umiak.ps.options import SessionOptions

LOOK_S = 0.5
STAY_S = 0.02
TLS_OF_SERVERS = ("cert", "key", "ca")


def serve(seat: PsSeat, options: SessionOptions, *, linger_s: float = 0.0) -> int:
    """Serve the shards of this seat; returns the exit status for this process. ``linger_s``: how long after SIGTERM."""
    server = umiak_native.Server(json.dumps(_config(seat, options)), os.fsencode(seat.token) if seat.token else None)
    received: list[tuple[int, float]] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append((number, time.monotonic()))

    def is_asked() -> bool:
        return bool(received) and time.monotonic() >= received[0][1] + linger_s

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    endpoint = None
    try:
        server.start()
        endpoint = _metrics_endpoint(seat, options, lambda: metrics.text(json.loads(server.status())))
        verdict: str | None = None
        while not (received and verdict) and not is_asked():
            umiak.progress()  # a server that nobody asks anything is not a server that hangs
            verdict = server.wait(LOOK_S)
            if verdict is not None:
                # A trainer that was killed just behind its last word is started again, and finds its work done.
                may_somebody_come = seat.launched and json.loads(verdict)["ok"] is True
                if not may_somebody_come:
                    break
                time.sleep(STAY_S)
        if verdict is None:
            # Trainers still need it, and all that they find out is that it can't be reached.
            trainers = json.loads(server.status())["trainers"]
            waiting = ", ".join(str(each["rank"]) for each in trainers if each["state"] != "done")
            if waiting:
                why = f"received {signal.Signals(received[0][0]).name}; not yet done: trainer {waiting}"
                print(f"umiak.ps: server {seat.rank} ends: {why}", file=sys.stderr)
    finally:
        if endpoint is not None:
            endpoint.close()
        server.stop()
        for number, handler in previous.items():
            signal.signal(number, handler)
    ended: JsonObject = json.loads(verdict) if verdict else {"ok": True}
    if ended["ok"]:
        if ended.get("lost"):
            print(f"umiak.ps: server {seat.rank}: {ended['text']}", file=sys.stderr)
        return Exit.DONE
    ranks = ", ".join(map(str, ended["lost"]))
    why = f"lost for good: trainer {ranks}" if ranks and not ended["log_failed"] else ended["text"]
    print(f"umiak.ps: server {seat.rank} ends: {why}", file=sys.stderr)
    return Exit.JOB_FAILED


def _metrics_endpoint(seat: PsSeat, options: SessionOptions, page: Callable[[], str]) -> metrics.MetricsEndpoint | None:
    """What tells Prometheus how this server is, if it was asked for. A job does not end because a port is taken."""
    address: tuple[str, int] | Problem | None = seat.metrics
    if options.metrics is not None:
        has_token = seat.token is not None
        address = environment.metrics_address(str(options.metrics), "metrics", seat.rank, has_token=has_token)
    if address is None:
        return None
    if isinstance(address, Problem):
        raise BadRequest(address)
    host, port = address
    try:
        endpoint = metrics.MetricsEndpoint(host, port, token=seat.token, page=page)
    except OSError as error:
        print(f"umiak.ps: server {seat.rank}: no metrics at {host}:{port}: {error.strerror}", file=sys.stderr)
        return None
    where = join_host_port(host, endpoint.port)
    print(f"umiak.ps: server {seat.rank}: metrics at http://{where}/metrics", file=sys.stderr)
    return endpoint


def _config(seat: PsSeat, options: SessionOptions) -> JsonObject:
    host, port = seat.endpoint
    return {
        "host": host,
        "port": port,
        "job": seat.job,
        "index": seat.rank,
        "servers": len(seat.servers),
        "shards": options.shards,
        "world": seat.world,
        "tls": {name: options.tls[name] for name in TLS_OF_SERVERS if name in options.tls} if options.tls else None,
        "log": _log(seat, options),
        "on_loss": options.on_loss,
        "grace_s": options.grace_s,
    }


def _log(seat: PsSeat, options: SessionOptions) -> JsonObject | None:
    """Where and how often pushes are made durable."""
    if options.durability_ms is None:
        return None
    if options.state_dir is not None:
        directory = os.path.join(options.state_dir, f"server.{seat.rank}")
        _make_private(directory)
        _check_own(directory)
    elif seat.state_dir is not None:
        directory = seat.state_dir
        above = os.path.dirname(directory)
        _make_private(directory)
        # A log directory may be one where others write as well: what they have made there is neither read nor cleared away.
        for each in (os.path.dirname(above), above, directory):
            _check_own(each)
        _forget_other_runs(directory)
    else:
        raise bad(
            "UM-PS-012", "durability needs a directory, and there is no launcher's log directory", "state_dir=..."
        )
    return {"dir": directory, "interval_ms": options.durability_ms}


def _make_private(directory: str) -> None:
    """Make it, and what is missing above it, for this person alone."""
    if not os.path.isdir(directory):
        _make_private(os.path.dirname(directory))
        try:
            os.mkdir(directory, mode=0o700)
        except FileExistsError:
            pass  # another server was faster


def _check_own(directory: str) -> None:
    seen = os.lstat(directory)
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
        whose = f"it belongs to uid {seen.st_uid} (mode {stat.S_IMODE(seen.st_mode):04o})"
        why = whose if stat.S_ISDIR(seen.st_mode) else f"{whose}, and is a link or no directory"
        what = f"durability needs a directory that nobody else can change, and {why}: {directory}"
        raise bad("UM-PS-012", what, "name one of your own: `--log_dir` of the launcher, or state_dir=...")


def _forget_other_runs(directory: str) -> None:
    """What an earlier run of a job left in the same log directory is of no use: a run starts from nothing, or from a checkpoint."""
    above = os.path.dirname(directory)
    if not os.path.isdir(above):
        return
    for name in os.listdir(above):
        if name != os.path.basename(directory):
            shutil.rmtree(os.path.join(above, name), ignore_errors=True)

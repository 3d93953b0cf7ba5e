"""What the client says, understood. A decider.

    submitted(ClientOutput(status=0, out='...{"jobId": "job-1"}', err=""))     ClientAnswer(job_id="job-1")
    state("running")                                                      State.RUNNING

Its answers come in two forms: the object itself, or ``{"code": 0, "message": ..., "data": {...}}``, with lines for
people before it. With ``--json`` it may end with 0 although the job was refused, and with 1 although it was accepted
and only the answer got lost. So an answer that neither names a job nor refuses it is *unclear*, and the caller has to
look whether the job is there.
"""

from __future__ import annotations

import json

from umiak.core.cluster import Role
from umiak.core.shown import one_line
from umiak.core.status import State
from umiak.core.value import value
from umiak.submit.states import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

BACKEND = "paddlecloud"
REFUSALS = ("oops...", "error occurred:", "error: unknown option", "usage: paddlecloud", "error: argument")
"""How the client begins a line when it has not started anything, in small letters."""
USAGE = 2
"""Exit status of a wrong command line."""


@value
class ClientOutput:
    """How the client ended."""

    status: int | None
    """None: it did not answer in time, and was killed."""
    out: str
    err: str


@value
class ClientAnswer:
    """What came of asking for a job."""

    job_id: str = ""
    refusal: str = ""
    """Why nothing was started."""
    unclear: str = ""
    """What is known if neither is certain."""


@value
class PlatformNode:
    """A node of a job, as the platform lists it."""

    name: str
    log_url: str
    role: Role
    rank: int


def submitted(output: ClientOutput) -> ClientAnswer:
    """A new job, or why there is none."""
    if output.status is None:
        return ClientAnswer(unclear="the client did not answer in time")
    data = last_object(output.out)
    if data is not None:
        if _is_refused(data):
            return ClientAnswer(refusal=one_line(str(data.get("message") or f"code {data['code']}")))
        job_id = _inner(data).get("jobId")
        if isinstance(job_id, str) and job_id:
            return ClientAnswer(job_id=job_id)
    lines = [line.strip() for line in f"{output.out}\n{output.err}".splitlines() if line.strip()]
    refused = next((line for line in lines if line.lower().startswith(REFUSALS)), "")
    if output.status and (refused or output.status == USAGE):
        return ClientAnswer(refusal=one_line(refused or (lines[-1] if lines else f"exit status {output.status}")))
    last = f": {one_line(lines[-1], 200)}" if lines else ""
    return ClientAnswer(unclear=f"the client ended with {output.status}{last}")


def told(output: ClientOutput) -> tuple[JsonObject, str]:
    """The answer to a question, or an empty one and what went wrong."""
    if output.status is None:
        return {}, "the client did not answer in time"
    data = last_object(output.out)
    if data is not None and not _is_refused(data) and output.status == 0:
        return _inner(data), ""
    if data is not None and _is_refused(data):
        return {}, one_line(str(data.get("message") or f"code {data['code']}"))
    lines = [line.strip() for line in f"{output.out}\n{output.err}".splitlines() if line.strip()]
    return {}, one_line(lines[-1], 200) if lines else f"the client ended with {output.status} and said nothing"


def jobs(data: JsonObject) -> list[tuple[str, str]]:
    """Names and ids of a page of jobs."""
    rows = data.get("jobs")
    return [
        (str(row.get("jobName", "")), str(row.get("jobId", "")))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    ]


def state(word: str) -> State | None:
    """Our word for the platform's; None: nobody knows it. It may be a part of what it says, as in ``job success``."""
    table, lower = STATES[BACKEND], word.strip().lower()
    if lower in table:
        return table[lower]
    parts = [known for known in table if known in lower]
    return table[max(parts, key=len)] if parts else None


def nodes(data: JsonObject) -> list[PlatformNode]:
    """The nodes of a job: servers and trainers, each with where its log is."""
    nodes = []
    for key, usual in (("pserverList", Role.SERVER), ("trainerList", Role.TRAINER)):
        rows = data.get(key)
        for number, row in enumerate(rows if isinstance(rows, list) else ()):
            if isinstance(row, dict):
                name = str(row.get("resourceName", f"{usual.value}-{number}"))
                tail = name.rpartition("-")[2]
                role = Role.SERVER if "pserver" in name else usual
                rank = int(tail) if tail.isdecimal() else number
                nodes.append(PlatformNode(name=name, log_url=str(row.get("logUrl", "")), role=role, rank=rank))
    return nodes


def last_object(text: str) -> JsonObject | None:
    """The last JSON object of an output that has lines for people before it."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    last = None
    while at >= 0:
        try:
            data, end = decoder.raw_decode(text, at)
        except ValueError:
            at = text.find("{", at + 1)
            continue
        if isinstance(data, dict):
            last = data
        at = text.find("{", end)
    return last


def _is_refused(data: JsonObject) -> bool:
    return data.get("code", 0) not in (0, "0")


def _inner(data: JsonObject) -> JsonObject:
    inner = data.get("data")
    return inner if "code" in data and isinstance(inner, dict) else data

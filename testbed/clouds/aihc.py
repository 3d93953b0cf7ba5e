"""Adapter: a stand-in for AIHC's training jobs, version 2. Requests must be signed with bce-auth-v1."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from typing import Any
from urllib.parse import quote

from testbed.clouds.server import ACCESS, SECRET, CloudRequest, StandIn, StandInJob

PAGE_LINES = 3
"""How many lines one answer has."""
ACTIONS = {
    "CreateJob": "create",
    "DescribeJob": "get",
    "DescribeJobs": "list",
    "DescribeJobLogs": "log",
    "StopJob": "stop",
    "DescribeJobWebterminal": "terminal",
}


class AihcStandIn(StandIn):
    """A resource pool."""

    FIRST_WORD = "Created"

    def action(self, request: CloudRequest) -> str:
        return ACTIONS.get(request.asked("action"), "unknown")

    def verify(self, request: CloudRequest) -> bool:
        return is_signed(request)

    def obey(self, action: str, request: CloudRequest) -> tuple[int, dict[str, Any]]:
        assert request.headers["x-api-version"] == "v2"
        assert request.asked("resourcePoolId") == "cce-pool"
        body = request.data()
        if action == "list":
            found = [each for each in self.jobs.values() if body.get("keyword", "") in each.name]
            found.sort(key=lambda each: -each.made_s)
            begin = (body["pageNumber"] - 1) * body["pageSize"]
            jobs = [self._told(each) for each in found[begin : begin + body["pageSize"]]]
            return 200, {"requestId": "r", "totalCount": len(found), "jobs": jobs}
        assert request.asked("queueID") == "default"
        if action == "create":
            made = self.new_job(f"job-{len(self.jobs)}x", body["name"], body)
            return 200, {"requestId": "r", "jobId": made.id, "jobName": made.name}
        job = self.jobs.get(body["jobId"])
        if job is None:
            return 404, self.error(404, "JobNotFound", "no such job")
        if action == "stop":
            job.is_stopped, job.word = True, "ManualTermination"
            return 200, {"requestId": "r", "jobId": job.id}
        if action == "terminal":
            return 200, {"requestId": "r", "webTerminalUrl": f"wss://terminal.test/{body['podName']}?token=t"}
        if action == "log":
            begin = int(body.get("marker") or 0)
            lines = [line for _, line in job.logs.get(body["podName"], [])]
            more = begin + PAGE_LINES < len(lines)
            said = {"logs": lines[begin : begin + PAGE_LINES], "podName": body["podName"]}
            return 200, {**said, "nextMarker": str(begin + PAGE_LINES) if more else ""}
        return 200, {"requestId": "r", **self._told(job)}

    def error(self, status: int, code: str, message: str) -> dict[str, Any]:
        return {"code": code, "message": message, "requestId": "r", "status": status}

    def _told(self, job: StandInJob) -> dict[str, Any]:
        made = dt.datetime.fromtimestamp(job.made_s, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        pods = [{"podName": name, "exitCode": code, "podStatus": "Failed"} for name, code in job.exit_codes.items()]
        return {
            "jobId": job.id,
            "name": job.name,
            "status": job.word,
            "createdAt": made,
            "finishedAt": "",
            "reason": job.reason,
            "labels": job.body["labels"],
            "jobSpec": job.body["jobSpec"],
            "pods": pods,
            "metadata": {"hidden": True},
        }


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def is_signed(request: CloudRequest) -> bool:
    """Whether the signature is right: bce-auth-v1, which all of Baidu's APIs want."""
    version, access, moment, seconds, _, signature = request.headers.get("authorization", "/////").split("/")
    info = f"{version}/{access}/{moment}/{seconds}"
    key = hmac.new(SECRET.encode(), info.encode(), hashlib.sha256).hexdigest()
    pairs = [(name, text) for name, text in request.query if name.lower() != "authorization"]
    query = "&".join(sorted(f"{_quoted(name)}={_quoted(text)}" for name, text in pairs))
    signed = ("host", "content-md5", "content-length", "content-type")
    lines = sorted(
        f"{_quoted(name)}:{_quoted(text.strip())}"
        for name, text in request.headers.items()
        if (name in signed or name.startswith("x-bce-")) and text.strip()
    )
    whole = "\n".join([request.method, request.path, query, "\n".join(lines)])
    expected = hmac.new(key.encode(), whole.encode(), hashlib.sha256).hexdigest()
    return access == ACCESS and hmac.compare_digest(expected, signature)

"""Adapter: a stand-in for PAI's DLC jobs. Requests must be signed with ACS3-HMAC-SHA256."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from typing import Any
from urllib.parse import quote

from testbed.clouds.server import ACCESS, SECRET, CloudRequest, StandIn, StandInJob


class PaiStandIn(StandIn):
    """A workspace."""

    FIRST_WORD = "Queuing"

    def action(self, request: CloudRequest) -> str:
        if request.path == "/api/v1/jobs":
            return "create" if request.method == "POST" else "list"
        return {"logs": "log", "stop": "stop", "webterminal": "terminal"}.get(request.path.rpartition("/")[2], "get")

    def verify(self, request: CloudRequest) -> bool:
        scheme, _, rest = request.headers.get("authorization", "").partition(" ")
        said = dict(part.strip().split("=", 1) for part in rest.split(","))
        names = said["SignedHeaders"].split(";")
        query = "&".join(f"{quote(name, safe='~')}={quote(text, safe='~')}" for name, text in sorted(request.query))
        lines = "".join(f"{name}:{request.headers[name].strip()}\n" for name in names)
        payload = hashlib.sha256(request.body).hexdigest()
        if request.headers["x-acs-content-sha256"] != payload:
            return False
        whole = f"{request.method}\n{request.path}\n{query}\n{lines}\n{';'.join(names)}\n{payload}"
        text = f"{scheme}\n{hashlib.sha256(whole.encode()).hexdigest()}"
        expected = hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()
        return said["Credential"] == ACCESS and hmac.compare_digest(expected, said["Signature"])

    def obey(self, action: str, request: CloudRequest) -> tuple[int, dict[str, Any]]:
        assert request.headers["x-acs-version"] == "2020-12-03"
        if action == "list":
            wanted = request.asked("DisplayName").lower()
            assert request.asked("WorkspaceId") == "268"
            found = sorted((each for each in self.jobs.values() if wanted in each.name), key=lambda each: -each.made_s)
            size = int(request.asked("PageSize"))
            begin = (int(request.asked("PageNumber")) - 1) * size
            jobs = [self._told(each) for each in found[begin : begin + size]]
            return 200, {"Jobs": jobs, "TotalCount": len(found), "RequestId": "r"}
        if action == "create":
            body = request.data()
            made = self.new_job(f"dlc{len(self.jobs)}x", body["DisplayName"], body)
            return 200, {"JobId": made.id, "RequestId": "r"}
        parts = request.path.strip("/").split("/")
        job = self.jobs.get(parts[3])
        if job is None:
            return 404, self.error(404, "JobNotFound", "no such job")
        if action == "stop":
            job.is_stopped, job.word = True, "Stopped"
            return 200, {"JobId": job.id, "RequestId": "r"}
        if action == "terminal":
            assert request.asked("IsShared") == "true"
            return 200, {"WebTerminalUrl": f"wss://terminal.test/{parts[5]}?token=t", "RequestId": "r"}
        if action == "log":
            since, until = (_seconds(request.asked(name)) for name in ("StartTime", "EndTime"))
            lines = [line for at_s, line in job.logs.get(parts[5], []) if since <= at_s < until]
            return 200, {"Logs": lines[: int(request.asked("MaxLines"))], "RequestId": "r"}
        return 200, {"RequestId": "r", **self._told(job)}

    def error(self, status: int, code: str, message: str) -> dict[str, Any]:
        return {"Code": code, "Message": message, "RequestId": "r", "HttpStatusCode": status}

    def _told(self, job: StandInJob) -> dict[str, Any]:
        made = dt.datetime.fromtimestamp(int(job.made_s), dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        pods = [
            {"PodId": f"{job.id}-{spec['Type'].lower()}-{number}", "Type": spec["Type"], "Status": "Running"}
            for spec in job.body["JobSpecs"]
            for number in range(spec["PodCount"])
        ]
        return {
            "JobId": job.id,
            "DisplayName": job.name,
            "Status": job.word,
            "ReasonCode": "JobFailed" if job.reason else "",
            "ReasonMessage": job.reason,
            "GmtCreateTime": made,
            "Settings": job.body["Settings"],
            "Pods": pods,
        }


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()

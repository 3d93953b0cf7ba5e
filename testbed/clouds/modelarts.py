"""Adapter: a stand-in for ModelArts' training jobs, version 2. Requests must be signed with SDK-HMAC-SHA256."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any
from urllib.parse import quote

from testbed.clouds.server import ACCESS, SECRET, CloudRequest, StandIn, StandInJob

PROJECT = "project0"
PREVIEW_BYTES = 200
"""How much of a log one answer has; the real one has 5 MB."""


class ModelArtsStandIn(StandIn):
    """A project."""

    FIRST_WORD = "Pending"

    def action(self, request: CloudRequest) -> str:
        parts = request.path.strip("/").split("/")
        if parts[2:] == ["training-job-searches"]:
            return "list"
        if parts[2:] == ["training-jobs"]:
            return "create"
        return {"actions": "stop", "preview": "log"}.get(parts[-1], "get")

    def verify(self, request: CloudRequest) -> bool:
        scheme, _, rest = request.headers.get("authorization", "").partition(" ")
        said = dict(part.strip().split("=", 1) for part in rest.split(","))
        names = said["SignedHeaders"].split(";")
        query = "&".join(f"{quote(name, safe='~')}={quote(text, safe='~')}" for name, text in sorted(request.query))
        lines = "".join(f"{name}:{request.headers[name]}\n" for name in names)
        path = request.path if request.path.endswith("/") else f"{request.path}/"
        payload = hashlib.sha256(request.body).hexdigest()
        whole = f"{request.method}\n{path}\n{query}\n{lines}\n{';'.join(names)}\n{payload}"
        text = f"{scheme}\n{request.headers['x-sdk-date']}\n{hashlib.sha256(whole.encode()).hexdigest()}"
        expected = hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()
        is_signed = {"host", "x-sdk-date"} <= set(names)
        return said["Access"] == ACCESS and is_signed and hmac.compare_digest(expected, said["Signature"])

    def obey(self, action: str, request: CloudRequest) -> tuple[int, dict[str, Any]]:
        assert request.path.startswith(f"/v2/{PROJECT}/"), request.path
        if action == "list":
            return 200, self._listed(request.data())
        if action == "create":
            body = request.data()
            number = len(self.jobs)
            made = self.new_job(f"0000{number}-aa-bb", body["metadata"]["name"], body)
            return 201, self._told(made)
        parts = request.path.strip("/").split("/")
        job = self.jobs.get(parts[3])
        if job is None:
            return 404, self.error(404, "ModelArts.2780", "no such job")
        if action == "stop":
            assert request.data() == {"action_type": "terminate"}
            job.is_stopped, job.word = True, "Terminated"
            return 202, {}
        if action == "log":
            full = "".join(f"{line}\n" for _, line in job.logs.get(parts[5], [])).encode()
            shown = full[-PREVIEW_BYTES:]
            return 200, {"content": shown.decode(), "current_size": len(shown), "full_size": len(full)}
        return 200, self._told(job)

    def error(self, status: int, code: str, message: str) -> dict[str, Any]:
        return {"error_code": code, "error_msg": message, "status": status}

    def _listed(self, asked: dict[str, Any]) -> dict[str, Any]:
        wanted = {name for each in asked.get("filters", []) if each["key"] == "name" for name in each["value"]}
        found = [each for each in self.jobs.values() if not wanted or each.name in wanted]
        found.sort(key=lambda each: -each.made_s)
        begin = asked["offset"] * asked["limit"]
        items = [self._told(each) for each in found[begin : begin + asked["limit"]]]
        return {"total": len(found), "count": len(items), "items": items}

    def _told(self, job: StandInJob) -> dict[str, Any]:
        tasks = job.body.get("tasks") or [{"role": "worker", "task_resource": job.body["spec"]["resource"]}]
        names = [f"{each['role']}-{n}" for each in tasks for n in range(each["task_resource"]["node_count"])]
        ends = [{"task": name, "exit_code": code, "message": job.reason} for name, code in job.exit_codes.items()]
        made_ms = int(job.made_s * 1000)
        return {
            "kind": job.body["kind"],
            "metadata": {**job.body["metadata"], "id": job.id, "create_time": made_ms, "user_name": "tester"},
            "status": {
                "phase": job.word,
                "secondary_phase": "Unknown",
                "tasks": names,
                "task_statuses": ends,
                "start_time": made_ms + 500,
                "duration": 2000,
            },
        }

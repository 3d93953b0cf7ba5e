"""Adapter: a stand-in for BML's training jobs. Requests must have a token that was given for the key, and has not expired."""

from __future__ import annotations

from typing import Any

from testbed.clouds.server import ACCESS, SECRET, CloudRequest, StandIn, StandInJob


class BmlStandIn(StandIn):
    """An account."""

    FIRST_WORD = "PENDING"

    def __init__(self) -> None:
        super().__init__()
        self.token = "24.first-token"

    def action(self, request: CloudRequest) -> str:
        last = request.path.rpartition("/")[2]
        return {"detail": "get"}.get(last, last)

    def verify(self, request: CloudRequest) -> bool:
        if self.action(request) == "token":
            return request.asked("client_id") == ACCESS and request.asked("client_secret") == SECRET
        return True

    def obey(self, action: str, request: CloudRequest) -> tuple[int, dict[str, Any]]:
        if action == "token":
            return 200, {"access_token": self.token, "expires_in": 2592000}
        assert request.path.startswith("/rpc/2.0/easydl/pro/remotetrain/")
        if request.asked("access_token") != self.token:
            return 200, {"error_code": 110, "error_msg": f"Access token invalid: {request.asked('access_token')}"}
        body = request.data()
        if action == "create":
            made = self.new_job(f"bml-{len(self.jobs)}", body["name"], body)
            return 200, {"log_id": 1, "result": {"job_id": made.id}}
        if action == "list":
            found = [each for each in self.jobs.values() if body.get("name", "") in each.name]
            begin = (body["page_num"] - 1) * body["page_size"]
            jobs = [self._told(each) for each in found[begin : begin + body["page_size"]]]
            return 200, {"log_id": 1, "result": {"jobs": jobs, "total": len(found)}}
        job = self.jobs.get(body["job_id"])
        if job is None:
            return 404, self.error(404, "336000", "no such job")
        if action == "stop":
            job.is_stopped, job.word = True, "STOPPED"
            return 200, {"log_id": 1, "result": {}}
        return 200, {"log_id": 1, "result": self._told(job)}

    def error(self, status: int, code: str, message: str) -> dict[str, Any]:
        return {"error_code": code, "error_msg": message, "status": status}

    def _told(self, job: StandInJob) -> dict[str, Any]:
        return {
            "job_id": job.id,
            "name": job.name,
            "description": job.body["description"],
            "status": job.word,
            "fail_reason": job.reason,
            "create_time": int(job.made_s),
            "resource_config": job.body["resource_config"],
        }

"""Adapter: a stand-in for Baidu's BCC, which keeps machines and images. Requests must be signed with bce-auth-v1.

with serving(BccStandIn(["127.0.0.2", "127.0.0.3"])) as cloud:
    cloud.unseen_for = 3        lists do not show a new machine before the fourth look
    cloud.machines["i-0"].releases      when it releases itself
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.clouds.aihc import is_signed
from testbed.clouds.server import CloudRequest, StandIn

PAGE = 2
"""How many machines one answer has."""
PRICE = "0.125"
"""For a minute."""


@dataclass
class StandInMachine:
    """A machine that the stand-in keeps."""

    id: str
    body: dict[str, Any]
    address: str
    made: dt.datetime
    looks: int = 0
    releases: str = ""
    is_released: bool = False
    is_bad: bool = False
    tags: dict[str, str] = field(default_factory=dict)


class BccStandIn(StandIn):
    """A region."""

    def __init__(self, addresses: Sequence[str], *, is_public: bool = False) -> None:
        super().__init__()
        self.addresses = addresses
        self.is_public = is_public
        self.machines: dict[str, StandInMachine] = {}
        self.images: dict[str, dict[str, Any]] = {}
        self.unseen_for = 0
        """New machines are not listed before so many looks."""
        self.makes_bad = False
        self.image_word = "Available"
        """What an image is in the end."""
        self.keeps_released = False
        """Released machines are listed for ever."""
        self.created = threading.Event()
        self._by_token: dict[str, dict[str, Any]] = {}

    @property
    def running(self) -> list[StandInMachine]:
        return [each for each in self.machines.values() if not each.is_released]

    def action(self, request: CloudRequest) -> str:
        if request.path == "/v2/instanceBySpec":
            return "create"
        if request.path == "/v2/instance/price":
            return "price"
        if request.path == "/v2/instance":
            return "list"
        if request.path == "/v2/image":
            return "image" if request.method == "POST" else "images"
        if request.path.startswith("/v2/instance/"):
            return "schedule" if request.method == "PUT" else "release"
        return "unknown"

    def verify(self, request: CloudRequest) -> bool:
        return is_signed(request)

    def obey(self, action: str, request: CloudRequest) -> tuple[int, dict[str, Any]]:
        if action in ("create", "image"):
            token = request.asked("clientToken")
            assert 0 < len(token) <= 64, token
            if token not in self._by_token:
                self._by_token[token] = (self._create if action == "create" else self._image)(request.data())
            self.created.set()
            return 200, self._by_token[token]
        if action == "price":
            body = request.data()
            assert body["paymentTiming"] == "Postpaid"
            prices = [{"spec": body["spec"], "status": "available", "specPrice": "0.2", "tradePrice": PRICE}]
            return 200, {"price": [{"specId": "gn3", "specPrices": prices}]}
        if action == "list":
            return 200, self._list(request)
        if action == "images":
            return 200, self._images(request)
        machine = self.machines.get(request.path.rpartition("/")[2])
        if machine is None or machine.is_released:
            return 404, self.error(404, "NoSuchObject", "no such instance")
        if action == "schedule":
            assert ("autorelease", "") in request.query
            machine.releases = request.data()["releaseTime"]
        else:
            assert request.data()["relatedReleaseFlag"] is True
            machine.is_released = True
            machine.looks = 0
        return 200, {}

    def error(self, status: int, code: str, message: str) -> dict[str, Any]:
        return {"code": code, "message": message, "requestId": "r", "status": status}

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["billing"]["paymentTiming"] == "Postpaid"
        ids = []
        for _ in range(body["purchaseCount"]):
            number = len(self.machines)
            now = dt.datetime.now(dt.timezone.utc) - dt.timedelta(hours=2)
            address = self.addresses[len(self.running) % len(self.addresses)]
            tags = {each["tagKey"]: each["tagValue"] for each in body["tags"]}
            made = StandInMachine(f"i-{number}", body, address, now + dt.timedelta(seconds=number), tags=tags)
            made.is_bad = self.makes_bad
            self.machines[made.id] = made
            ids.append(made.id)
        return {"instanceIds": ids}

    def _list(self, request: CloudRequest) -> dict[str, Any]:
        name, _, text = request.asked("tags").partition(":")
        found = []
        for each in self.machines.values():
            each.looks += not request.asked("marker")
            if each.is_released and each.looks > 1 and not self.keeps_released:  # it takes a moment
                continue
            if not each.is_released and each.looks <= self.unseen_for:
                continue
            if name in each.tags and text in ("", each.tags[name]):
                found.append(each)
        begin = int(request.asked("marker") or 0)
        page = [self._told(each) for each in found[begin : begin + PAGE]]
        more = begin + PAGE < len(found)
        said = {"marker": str(begin), "isTruncated": more, "maxKeys": PAGE, "instances": page}
        return {**said, "nextMarker": str(begin + PAGE)} if more else said

    def _told(self, machine: StandInMachine) -> dict[str, Any]:
        word = "Running" if machine.looks > self.unseen_for + 1 else "Starting"
        word = "Error" if machine.is_bad else "Stopping" if machine.is_released else word
        return {
            "id": machine.id,
            "name": f"{machine.body['name']}-{machine.id}",
            "status": word,
            "spec": machine.body["spec"],
            "zoneName": machine.body["zoneName"],
            "createTime": machine.made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "releaseTime": machine.releases,
            "internalIp": "" if word == "Starting" else machine.address,
            "publicIp": machine.address if self.is_public else "",
            "tags": [{"tagKey": name, "tagValue": text} for name, text in machine.tags.items()],
        }

    def _image(self, body: dict[str, Any]) -> dict[str, Any]:
        made = {"id": f"m-{len(self.images)}", "name": body["imageName"], "looks": 0, "of": body["instanceId"]}
        self.images[made["id"]] = made
        return {"imageId": made["id"]}

    def _images(self, request: CloudRequest) -> dict[str, Any]:
        found = [each for each in self.images.values() if each["name"] == request.asked("imageName")]
        for each in found:
            each["looks"] += 1
            each["status"] = self.image_word if each["looks"] > 1 else "Creating"
        return {"isTruncated": False, "images": found}

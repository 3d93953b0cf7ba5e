"""Baidu's BCC through its SDK. An adapter.

Keys come from the environment: BCE_ACCESS_KEY_ID, BCE_SECRET_ACCESS_KEY, and with a temporary key BCE_SESSION_TOKEN.
"""

from __future__ import annotations

import json

from umiak.core.problem import UmiakError
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.cloud.api import CloudFailure
from umiak.submit.machines.machine import TAG_GROUP, TAG_OWNER, TAG_RUN, MachineImage, RentedMachine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.machines.machine import Wanted
    from umiak.submit.machines.settings import MachineSettings

KEYS = ("BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY")
SESSION = "BCE_SESSION_TOKEN"
PAGE_SIZE = 100
MINUTES = 60
"""BCC counts what is paid afterwards by the minute, and tells the price of one."""


def connect(settings: MachineSettings, environ: Mapping[str, str]) -> BccApi:
    """The API, with the keys of the environment."""
    unset = [name for name in KEYS if not environ.get(name)]
    if unset:
        hint = f"export {' '.join(f'{name}=...' for name in unset)}; never write keys into umiak.toml"
        raise UmiakError.of("UM-MACHINES-002", f"not set: {', '.join(unset)}", hint=hint)
    return BccApi(settings, {name: environ.get(name, "") for name in (*KEYS, SESSION)})


class BccApi:
    """One region."""

    def __init__(self, settings: MachineSettings, keys: Mapping[str, str]) -> None:
        self._settings = settings
        self._keys = keys
        endpoint = settings.endpoint or f"https://bcc.{settings.region}.baidubce.com"
        account = [keys.get(name, "") for name in (*KEYS, SESSION)]
        service = "baidubce.services.bcc.bcc_client"
        self._client = sdk.baidu_client(service, "BccClient", account, endpoint, settings.timeout_s)
        self._model = sdk.load("baidubce.services.bcc.bcc_model", sdk.BAIDU)

    def list(self, group: str | None = None) -> list[RentedMachine]:
        tag = f"{TAG_GROUP}:{group}" if group else TAG_GROUP
        machines = [machine_of(each) for each in self._pages(self._client.list_instances, "instances", tags=tag)]
        # Whether the cloud has filtered or not: nothing without the tag is ever touched.
        return [each for each in machines if each.group and (not group or each.group == group)]

    def price(self, spec: str, zone: str) -> float | None:
        answer = self._sent(
            self._client.get_price_by_spec,
            spec=spec,
            payment_timing="Postpaid",
            zone_name=zone,
            purchase_num=1,
            purchase_length=1,
        )
        prices = [each for family in answer.get("price") or () for each in family.get("specPrices") or ()]
        for each in prices:
            if each.get("spec", spec) == spec:
                text = each.get("tradePrice") or each.get("specPrice")
                try:
                    return float(text) * MINUTES
                except (TypeError, ValueError):
                    return None
        return None

    def create(self, wanted: Wanted) -> Sequence[str]:
        settings = self._settings
        tags = {TAG_GROUP: settings.group, TAG_OWNER: settings.owner, TAG_RUN: wanted.token}
        answer = self._sent(
            self._client.create_instance_by_spec,
            spec=settings.spec,
            image_id=settings.image,
            root_disk_size_in_gb=settings.disk,
            network_capacity_in_mbps=settings.bandwidth,
            purchase_count=wanted.count,
            name=f"umiak-{settings.group}",
            billing=self._model.Billing("Postpaid"),
            zone_name=settings.zone,
            subnet_id=settings.subnet,
            security_group_id=settings.security_group,
            key_pair_id=settings.key_pair,
            tags=[self._model.TagModel(name, text) for name, text in tags.items()],
            is_eip_auto_related_delete=True if settings.bandwidth else None,
            client_token=wanted.token,
        )
        ids = [str(each) for each in answer.get("instanceIds") or ()]
        if not ids:
            raise CloudFailure(0, "the answer has no ids of machines")
        return ids

    def release_at(self, machine_id: str, when_s: float) -> None:
        related = True if self._settings.bandwidth else None
        self._sent(
            self._client.auto_release_instance,
            instance_id=machine_id,
            release_time=sdk.utc(when_s),
            is_eip_auto_related_delete=related,
        )

    def release(self, machine_id: str) -> None:
        self._sent(
            self._client.release_instance_with_related_resources,
            instance_id=machine_id,
            related_release_flag=True,
            delete_cds_snapshot_flag=True,
            delete_related_enis_flag=True,
            bcc_recycle_flag=False,
        )

    def images(self, name: str) -> Sequence[MachineImage]:
        images = self._pages(self._client.list_images, "images", image_type="Custom", image_name=name)
        return [
            MachineImage(id=str(each.get("id")), name=name, word=str(each.get("status")))
            for each in images
            if each.get("name") == name
        ]

    def make_image(self, machine_id: str, name: str, token: str) -> str:
        answer = self._sent(
            self._client.create_image_from_instance_id, image_name=name, instance_id=machine_id, client_token=token
        )
        return sdk.made(answer.get("imageId"))

    def _pages(self, call: Callable[..., object], field: str, **words: object) -> Iterator[JsonObject]:
        marker = None
        while True:
            answer = self._sent(call, **words, marker=marker, max_keys=PAGE_SIZE)
            yield from answer.get(field) or ()
            marker = answer.get("nextMarker")
            if not answer.get("isTruncated") or not marker:
                return

    def _sent(self, call: Callable[..., object], **words: object) -> JsonObject:
        answer = sdk.sent(call, self._keys, **words)
        # The SDK's own objects have other names than BCC's documents; this is what was answered.
        data = json.loads(vars(answer).get("raw_data") or "{}")
        return data if isinstance(data, dict) else {}


def machine_of(answer: JsonMapping) -> RentedMachine:
    """A machine as BCC writes it."""
    tags = {str(each.get("tagKey")): str(each.get("tagValue")) for each in answer.get("tags") or ()}

    def text(name: str) -> str:
        return str(answer.get(name) or "")

    return RentedMachine(
        id=text("id"),
        group=tags.get(TAG_GROUP, ""),
        owner=tags.get(TAG_OWNER, ""),
        run=tags.get(TAG_RUN, ""),
        word=text("status"),
        name=text("name"),
        internal=text("internalIp"),
        public=text("publicIp"),
        spec=text("spec"),
        zone=text("zoneName"),
        created_s=sdk.seconds_of(text("createTime")),
        release_s=sdk.seconds_of(text("releaseTime")),
    )

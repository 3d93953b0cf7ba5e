"""Terraform's JSON for machines of Alibaba and Huawei. A decider.

The resources and their arguments are those of the providers `aliyun/alicloud` and `huaweicloud/huaweicloud`. Keys of
the account come from the environment, where the providers look for them; none is in the text. The output `place` is the
place for umiak.toml.
"""

from __future__ import annotations

import json

from umiak.submit.machines.decisions import table_key
from umiak.submit.machines.machine import TAG_GROUP, TAG_OWNER
from umiak.submit.machines.settings import ALIBABA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.submit.machines.settings import MachineSettings

ALICLOUD, HUAWEICLOUD = "alicloud_instance", "huaweicloud_compute_instance"
LABEL = "node"


def render(settings: MachineSettings, count: int, release_time: str) -> str:
    """The text of ``main.tf.json``. ``release_time`` is UTC: ``2026-11-16T20:00:00Z``."""
    make = _alibaba if settings.cloud == ALIBABA else _huawei
    provider, source, version, kind, body, field = make(settings, release_time)
    named = {"count": count, **body, "tags": {TAG_GROUP: settings.group, TAG_OWNER: _literal(settings.owner)}}
    addresses = f"{kind}.{LABEL}[*].{field}"
    tree = {
        "terraform": {"required_providers": {provider: {"source": source, "version": version}}},
        "provider": {provider: {"region": _literal(settings.region)}},
        "resource": {kind: {LABEL: named}},
        "output": {
            "hosts": {"description": "Addresses for ssh.", "value": f"${{{addresses}}}"},
            "place": {
                "description": "For umiak.toml: terraform output -raw place",
                "value": _place(settings, addresses),
            },
        },
    }
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _alibaba(settings: MachineSettings, release_time: str) -> tuple[str, str, str, str, JsonObject, str]:
    body: JsonObject = {
        "instance_name": _literal(f"umiak-{settings.group}-") + "${count.index}",
        "availability_zone": _literal(settings.zone),
        "instance_type": _literal(settings.spec),
        "image_id": _literal(settings.image),
        "vswitch_id": _literal(settings.subnet),
        "security_groups": [_literal(settings.security_group)],
        "key_name": _literal(settings.key_pair),
        "instance_charge_type": "PostPaid",
        "internet_max_bandwidth_out": settings.bandwidth,
        "auto_release_time": release_time,
    }
    body |= {"internet_charge_type": "PayByTraffic"} if settings.bandwidth else {}
    body |= {"system_disk_size": settings.disk} if settings.disk else {}
    field = "public_ip" if settings.bandwidth else "private_ip"
    return "alicloud", "aliyun/alicloud", ">= 1.70.0", ALICLOUD, body, field


def _huawei(settings: MachineSettings, release_time: str) -> tuple[str, str, str, str, JsonObject, str]:
    body: JsonObject = {
        "name": _literal(f"umiak-{settings.group}-") + "${count.index}",
        "availability_zone": _literal(settings.zone),
        "flavor_id": _literal(settings.spec),
        "image_id": _literal(settings.image),
        "network": [{"uuid": _literal(settings.subnet)}],
        "security_group_ids": [_literal(settings.security_group)],
        "key_pair": _literal(settings.key_pair),
        "charging_mode": "postPaid",
        "delete_disks_on_termination": True,
        "delete_eip_on_termination": True,
        "auto_terminate_time": release_time,
    }
    if settings.bandwidth:
        body["eip_type"] = "5_bgp"
        body["bandwidth"] = [{"share_type": "PER", "size": settings.bandwidth, "charge_mode": "traffic"}]
    body |= {"system_disk_size": settings.disk} if settings.disk else {}
    field = "public_ip" if settings.bandwidth else "access_ip_v4"
    return "huaweicloud", "huaweicloud/huaweicloud", ">= 1.97.0", HUAWEICLOUD, body, field


def _place(settings: MachineSettings, addresses: str) -> str:
    hosts = f"${{jsonencode({addresses})}}"
    if settings.port != 22:
        hosts = f'${{jsonencode([for host in {addresses} : "${{host}}:{settings.port}"])}}'
    lines = [f"[place.{table_key(settings.group)}]", 'backend = "ssh"', f"hosts = {hosts}"]
    lines += [f"user = {_literal(json.dumps(settings.user))}"]
    lines += [f"key = {_literal(json.dumps(settings.key))}"] if settings.key else []
    return "".join(f"{line}\n" for line in lines)


def _literal(text: str) -> str:
    """Terraform reads `${` and `%{` in strings as templates."""
    return text.replace("${", "$${").replace("%{", "%%{")

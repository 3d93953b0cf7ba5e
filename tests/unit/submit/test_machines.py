"""Machines: what is missing, what it costs, which place it is, and Terraform's JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import GOLDEN, ROOT
from umiak.cli.machines.flags import FLAGS
from umiak.cli.texts import help_text
from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.schema.findings import Findings
from umiak.schema.settings import table
from umiak.submit import configuration, places
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.ssh import settings as ssh_settings
from umiak.submit.machines import bcc, decisions, notes, settings, terraform
from umiak.submit.machines.machine import RentedMachine, Wanted
from umiak.submit.machines.settings import MachineSettings

pytest.importorskip("tomllib", reason="of Python 3.11")

TEXT = """\
[machines.gpu]
region = "bj"
zone = "cn-bj-d"
spec = "bcc.gn3.c8m32"
image = "m-1"
subnet = "sbn-1"
security_group = "g-1"
key_pair = "k-1"
"""
NOW_S = 1_000_000.0


def read(text: str = TEXT) -> MachineSettings:
    reading = places.read([("umiak.toml", text)], ("ssh",))
    assert not reading.problems, reading.problems
    return settings.read(reading.machines["gpu"], "gpu", "ada")


def machine(number: int, word: str = "Running", run: str = "t0", **more: Any) -> RentedMachine:
    address = f"10.0.0.{number}"
    said = {"id": f"i-{number}", "group": "gpu", "owner": "ada", "run": run, "word": word, "internal": address, **more}
    return RentedMachine(created_s=NOW_S - 3600 + number, **said)


def test_settings_and_their_defaults() -> None:
    found = read()
    assert (found.cloud, found.count, found.owner, found.user, found.release_after_s) == (
        "baidu",
        1,
        "ada",
        "root",
        8 * 3600,
    )
    assert read(TEXT + 'release_after = "90m"\ncount = 3\nowner = "team"\n').release_after_s == 5400


def test_everything_that_is_wrong_is_told_at_once() -> None:
    text = '[machines.gpu]\nregion = "bj"\nzone = "z"\nspec = "s"\nimage = "i"\nflavour = 1\nrelease_after = "5m"\ncount = 0\n'
    with pytest.raises(UmiakError) as caught:
        read(text)
    told = "\n".join(problem.what for problem in caught.value.problems)
    for word in ("subnet is missing", "security_group is missing", "key_pair", "flavour", "less than 1800", "count"):
        assert word in told, told


def test_a_table_of_machines_is_no_place() -> None:
    reading = places.read([("umiak.toml", TEXT), ("mine.toml", '[machines.gpu]\nregion = "x"\n')], ("ssh",))
    assert [*reading.places] == ["local"]
    assert [*reading.machines] == ["gpu"]
    assert str(reading.machines["gpu"].place).startswith("umiak.toml")
    found = places.read([("umiak.toml", 'machines = 1\n[place.x]\nbackend = "ssh"\n')], ("ssh",))
    assert [problem.code for problem in found.problems] == ["UM-CONFIG-013"]
    found = places.read([("umiak.toml", '[machines]\ngpu = 1\n"a b" = {}\n')], ("ssh",))
    assert {problem.code for problem in found.problems} == {"UM-CONFIG-013", "UM-CONFIG-014"}


@pytest.mark.parametrize(
    ("words", "pending", "count", "expected"),
    [
        ([], [], 2, (2, 0, 0)),
        (["Running"], [], 2, (1, 0, 0)),
        (["Running", "Starting"], [], 2, (0, 0, 0)),
        (["Running", "Running", "Running"], [], 2, (0, 0, 1)),
        (["Running", "Error"], [], 2, (1, 0, 0)),
        # A request whose machines are not to be seen yet is repeated, and not asked for again.
        ([], [Wanted(token="t0", count=2, sent_s=NOW_S - 5)], 2, (0, 2, 0)),
        (["Running"], [Wanted(token="t0", count=2, sent_s=NOW_S - 5)], 2, (0, 1, 0)),
        (["Running"], [Wanted(token="t1", count=2, sent_s=NOW_S - 5)], 4, (1, 2, 0)),
        (["Running", "Running"], [Wanted(token="t0", count=2, sent_s=NOW_S - 5)], 3, (1, 0, 0)),
        # One that is long past has not arrived.
        ([], [Wanted(token="t0", count=2, sent_s=NOW_S - 7200)], 2, (2, 0, 0)),
    ],
)
def test_what_is_missing(words: list[str], pending: list[Wanted], count: int, expected: tuple[int, int, int]) -> None:
    machines = [machine(number, word) for number, word in enumerate(words)]
    plan = decisions.up_plan(count, machines, pending, NOW_S)
    assert (plan.missing, plan.created - plan.missing, plan.surplus) == expected


def test_only_ones_own_machines_count() -> None:
    others = [machine(1, owner="bob"), machine(2, group="cpu"), machine(3, "Deleted"), machine(5), machine(4)]
    assert [each.id for each in decisions.mine(others, "gpu", "ada")] == ["i-4", "i-5"]


def test_money() -> None:
    assert decisions.money(12.6) == "CNY 12.60"
    assert decisions.money(0.0123) == "CNY 0.0123"
    assert decisions.so_far(machine(0), 10.0, NOW_S + 1800) == pytest.approx(15)
    assert decisions.so_far(machine(0), None, NOW_S) is None
    plan = decisions.up_plan(2, [], [], NOW_S)
    assert "CNY 20.00 an hour together, CNY 160.00 until their release" in "\n".join(
        decisions.price_lines(plan, read(), 10.0, 8 * 3600)
    )
    assert "no price" in decisions.price_lines(plan, read(), None, 3600)[0]


@pytest.mark.parametrize("more", ["", "bandwidth = 10\nport = 2222\nkey = '/home/ada/k'\npython = 'python3.11'\n"])
def test_the_place_is_one_that_ssh_reads(more: str) -> None:
    said = read(TEXT + more)
    machines = [machine(1, public="1.1.1.1"), machine(2, public="1.1.1.2")]
    text = decisions.place_text(said, machines, "/state/gpu.known_hosts")
    reading = places.read([("gpu.toml", text)], ("ssh",))
    assert not reading.problems
    findings = Findings()
    found = ssh_settings.read(reading.places["gpu"].settings, "gpu", findings)
    assert not findings.problems
    assert [each.host for each in found.hosts] == (["1.1.1.1", "1.1.1.2"] if more else ["10.0.0.1", "10.0.0.2"])
    assert [each.address for each in found.hosts] == ["10.0.0.1", "10.0.0.2"]
    assert {each.port for each in found.hosts} == ({2222} if more else {None})
    assert (found.access.user, found.access.known_hosts) == ("root", "/state/gpu.known_hosts")
    keys = decisions.known_hosts_text(said, machines, {"i-1": "ssh-ed25519 AAAA", "i-2": "ssh-ed25519 BBBB"})
    assert keys.splitlines()[0] == ("[1.1.1.1]:2222 ssh-ed25519 AAAA" if more else "10.0.0.1 ssh-ed25519 AAAA")


def test_a_machine_as_bcc_tells_of_it() -> None:
    found = bcc.machine_of(
        {
            "id": "i-1",
            "status": "Running",
            "createTime": "2026-11-16T10:00:00Z",
            "releaseTime": "",
            "tags": [{"tagKey": "umiak", "tagValue": "gpu"}, {"tagKey": "umiak-run", "tagValue": "t"}],
        }
    )
    assert (found.group, found.run, found.owner, found.release_s) == ("gpu", "t", "", None)
    assert sdk.utc(found.created_s or 0) == "2026-11-16T10:00:00Z"


# ---- Terraform: the arguments that the providers' pages document, and those without which an instance can't be created

DOCUMENTED = {
    "alicloud_instance": (
        {"image_id", "instance_type", "security_groups", "vswitch_id"},
        """count instance_name availability_zone key_name instance_charge_type internet_max_bandwidth_out
        internet_charge_type auto_release_time system_disk_size tags""",
    ),
    "huaweicloud_compute_instance": (
        {"name", "flavor_id", "image_id", "network"},
        """count availability_zone security_group_ids key_pair charging_mode delete_disks_on_termination
        delete_eip_on_termination auto_terminate_time eip_type bandwidth system_disk_size tags""",
    ),
}
CLOUDS = {
    "alibaba": 'cloud = "alibaba"\nbandwidth = 5\ndisk = 100\nkey = "~/.ssh/ali"\n',
    "huawei": 'cloud = "huawei"\nbandwidth = 5\n',
    "huawei-inside": 'cloud = "huawei"\nport = 2222\n',
}


@pytest.mark.parametrize("name", CLOUDS)
def test_terraform(name: str) -> None:
    text = terraform.render(read(TEXT + CLOUDS[name]), 2, "2026-11-17T04:00:00Z")
    file = GOLDEN / "machines" / f"{name}.tf.json"
    assert text == file.read_text(), f"if it is right: write it to {file}"
    tree = json.loads(text)
    ((kind, resources),) = tree["resource"].items()
    ((_, body),) = resources.items()
    required, optional = DOCUMENTED[kind]
    assert required <= set(body) <= required | set(optional.split())
    assert tree["provider"] == {kind.partition("_")[0]: {"region": "bj"}}  # no key of the account
    assert f"{kind}.node[*]" in tree["output"]["place"]["value"]


def test_terraform_reads_no_template_in_settings() -> None:
    said = replace(read(TEXT + 'cloud = "huawei"\n'), image="${file('/etc/passwd')}", key_pair="%{if true}")
    body = json.loads(terraform.render(said, 1, "x"))["resource"]["huaweicloud_compute_instance"]["node"]
    assert (body["image_id"], body["key_pair"]) == ("$${file('/etc/passwd')}", "%%{if true}")


def test_help_and_page_have_every_flag_and_key() -> None:
    text = help_text.of("machines")
    page = (ROOT / "docs" / "reference" / "machines.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        assert len(line) <= 108, line
    for flag in FLAGS:
        assert f"--{flag.name}" in text
        assert f"--{flag.name}" in page
    for key in table(MachineSettings):
        assert f"| `{key.name}` |" in page


def test_one_command_at_a_time_about_the_same_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "WAIT_S", 0)
    context = configuration.context({"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    with notes.Notes(context, "gpu").held():
        with notes.Notes(context, "cpu").held():
            pass
        with (
            pytest.raises(UmiakError, match="another `umiak machines` is at work: gpu"),
            notes.Notes(context, "gpu").held(),
        ):
            pass
    with notes.Notes(context, "gpu").held():
        pass

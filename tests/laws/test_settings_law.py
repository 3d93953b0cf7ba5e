"""Laws of the settings of places and of configs: what is written is what is in the value, zero, `false` and empty texts as well."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

import umiak.submit
from docs import tables
from tests.support.paths import ROOT
from umiak.core.problem import UmiakError
from umiak.core.value import fields
from umiak.schema import toml_tree
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Empty, Key, WrongType, known
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import read, table
from umiak.schema.yaml_tree import Section
from umiak.submit.backends.aihc.request import AihcSettings
from umiak.submit.backends.bml.request import BmlSettings
from umiak.submit.backends.cloud import settings as cloud
from umiak.submit.backends.kubernetes import settings as kubernetes
from umiak.submit.backends.kubernetes.settings import KubeSettings
from umiak.submit.backends.modelarts.request import ModelArtsSettings
from umiak.submit.backends.mpi import settings as mpi
from umiak.submit.backends.mpi.settings import MpiSettings
from umiak.submit.backends.paddlecloud.keys import ClientSettings
from umiak.submit.backends.pai.request import PaiSettings
from umiak.submit.backends.ray import settings as ray
from umiak.submit.backends.ray.settings import RaySettings
from umiak.submit.backends.slurm import settings as slurm
from umiak.submit.backends.slurm.settings import SlurmSettings
from umiak.submit.backends.ssh import settings as ssh
from umiak.submit.backends.ssh.settings import SshSettings
from umiak.submit.machines import settings as machines
from umiak.submit.machines.settings import MachineSettings
from umiak.submit.places import NamedPlace
from umiak.train.config.values import Dataset, Online, Phase, Runner, TableParameters

LITERALS = (
    "0",
    "1",
    "7",
    "0.0",
    "2.5",
    "-1",
    "false",
    "true",
    '""',
    '"0"',
    '"x"',
    '"/a/b"',
    '"90m"',
    "[]",
    '["x"]',
    "{}",
    '{gpu = "a/b"}',
)
"""Values of TOML, those that Python takes for false first of all."""
EMPTY = (None, "", (), {})
UNKNOWN = UnknownKeys(page="docs/reference/places.md", short={})


def _classes() -> list[type]:
    """Every class of settings below `umiak.submit`."""
    classes = {}
    for module in pkgutil.walk_packages(umiak.submit.__path__, "umiak.submit."):
        if module.name.rpartition(".")[2] in ("settings", "request", "access", "keys"):
            for item in vars(importlib.import_module(module.name)).values():
                if isinstance(item, type) and hasattr(item, "__declared__"):
                    classes[item] = None
    return list(classes)


OF_PLACES = _classes()
OF_CONFIGS = [Dataset, Online, Phase, Runner, TableParameters]
CLASSES = [*OF_PLACES, *OF_CONFIGS]


def _plain_fields(cls: type) -> dict[str, None]:
    """Fields that are no keys, also of groups."""
    plain = dict.fromkeys(name for name in fields(cls) if name not in cls.__declared__)
    for item in cls.__declared__.values():
        plain.update(_plain_fields(item.cls) if hasattr(item, "declared") else {})
    return plain


def _section(text: str) -> Section:
    findings = Findings()
    section = toml_tree.parse(text, "umiak.toml", findings)
    assert section is not None
    assert findings.problems == ()
    return section


def _read(cls: type, text: str) -> tuple[Any, Findings]:
    findings = Findings()
    settings, _ = read(cls, _section(text), "place lab", findings, UNKNOWN, **_plain_fields(cls))
    return settings, findings


def _declared(cls: type) -> list[tuple[tuple[str, ...], Any]]:
    """Each setting of a class, also of its groups, by the names of the fields that lead to it."""
    rows = []
    for name, item in cls.__declared__.items():
        if hasattr(item, "declared"):
            rows += [((name, inner), setting) for inner, setting in item.declared.items()]
        else:
            rows.append(((name,), item))
    return rows


def _value(settings: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        settings = getattr(settings, name)
    return settings


def _written(key: Key, literal: str) -> Any:
    """What a kind reads there. `BadValue` or `WrongType` if it refuses it."""
    return key.kind.read(key, _section(f"key = {literal}").entries[0].node)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_what_is_written_is_in_the_value_or_refused(cls: type) -> None:
    needed = len(_read(cls, "")[1].problems)
    for path, setting in _declared(cls):
        key = setting.key
        for literal in LITERALS:
            settings, findings = _read(cls, f"{key.name} = {literal}")
            try:
                written = _written(key, literal)
            except (BadValue, WrongType):
                assert len(findings.problems) > needed - key.required, (path, literal)
                continue
            if setting.read:
                continue
            is_refused = any(
                key.name in problem.what and "missing" not in problem.what for problem in findings.problems
            )
            wanted = setting.enum(written) if setting.enum else written
            if written in ("", ()) and key.empty is Empty.UNSAID:
                wanted = setting.default
            value = _value(settings, path)
            assert is_refused or (value == wanted and type(value) is type(wanted)), (path, literal)


def test_only_files_of_paddlerec_take_an_empty_text_for_another_default() -> None:
    for cls in set(CLASSES) - {ClientSettings, Dataset}:
        for path, setting in _declared(cls):
            assert setting.key.empty is not Empty.UNSAID or setting.default in EMPTY, (cls, path)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_what_is_not_written_is_the_default_that_the_page_tells(cls: type) -> None:
    settings, findings = _read(cls, "")
    for path, setting in _declared(cls):
        key = setting.key
        if key.required:
            assert any(f"{key.name} is missing" in problem.what for problem in findings.problems)
            continue
        default = _value(settings, path)
        assert default == setting.default
        shown = getattr(default, "value", default)
        assert key.default == (None if shown in EMPTY else shown), path


def _ssh(place: NamedPlace) -> SshSettings:
    findings = Findings()
    settings = ssh.read(place.settings, place.name, findings)
    if findings.problems:
        raise UmiakError(*findings.problems)
    return settings


def _cloud(cls: type) -> Callable[[NamedPlace], Any]:
    return lambda place: cloud.read(cls, place, UNKNOWN.page)


CLOUD = 'region = "r"\nstore = "obs://bucket"\n'
MACHINES = "".join(
    f'{name} = "x"\n' for name in ["region", "zone", "spec", "image", "subnet", "security_group", "key_pair"]
)
PLACES: dict[type, tuple[Callable[[NamedPlace], Any], str]] = {
    KubeSettings: (kubernetes.read, ""),
    SshSettings: (_ssh, 'hosts = ["node0"]\n'),
    SlurmSettings: (slurm.read, ""),
    MpiSettings: (mpi.read, "shared = false\n"),
    RaySettings: (ray.read, 'address = "http://head:8265"\n'),
    ModelArtsSettings: (_cloud(ModelArtsSettings), CLOUD),
    AihcSettings: (_cloud(AihcSettings), f'{CLOUD}pool = "p"\nqueue = "q"\n'),
    BmlSettings: (_cloud(BmlSettings), f'{CLOUD}repository = "r"\nresource = "s"\n'),
    PaiSettings: (_cloud(PaiSettings), f'{CLOUD}workspace = "w"\n'),
    MachineSettings: (lambda place: machines.read(place.settings, "gpu", "ada"), MACHINES),
}
"""How a place of each class is read, and what it needs."""
ELSEWHERE = {"config", "hosts"}
"""Keys of places with ssh hosts that are looked up in files: their values are others than what is written."""


@pytest.mark.parametrize("cls", PLACES, ids=lambda cls: cls.__name__)
def test_the_reader_of_a_place_keeps_what_is_written(cls: type) -> None:
    reader, needed = PLACES[cls]
    kept = 0
    for path, setting in _declared(cls):
        if setting.read or setting.key.name in ELSEWHERE:
            continue
        others = "".join(line for line in needed.splitlines(True) if not line.startswith(f"{setting.key.name} ="))
        for literal in LITERALS:
            section = _section(f"{others}{setting.key.name} = {literal}")
            try:
                settings = reader(NamedPlace(name="lab", backend="lab", settings=section))
            except UmiakError:
                continue
            written = _written(setting.key, literal)
            wanted = setting.enum(written) if setting.enum else written
            if wanted not in EMPTY or setting.default is not None:
                is_empty = wanted in EMPTY and setting.key.name == "owner"
                assert _value(settings, path) == ("ada" if is_empty else wanted), (path, literal)
                kept += 1
    assert kept > len(_declared(cls))


@pytest.mark.parametrize(
    ("cls", "key", "path"),
    [
        (KubeSettings, "grace", ("grace_s",)),
        (KubeSettings, "request_timeout", ("request_timeout_s",)),
        (PaiSettings, "poll", ("common", "poll_s")),
        (MachineSettings, "poll", ("poll_s",)),
        (SshSettings, "connect_timeout", ("access", "connect_timeout_s")),
    ],
)
def test_zero_is_a_value(cls: type, key: str, path: tuple[str, ...]) -> None:
    reader, needed = PLACES[cls]
    place = NamedPlace(name="lab", backend="lab", settings=_section(f"{needed}{key} = 0"))
    assert _value(reader(place), path) == 0


def test_a_place_has_all_its_settings_on_the_page() -> None:
    rows = (ROOT / "docs" / "reference" / "places.md").read_text(encoding="utf-8").splitlines()
    groups = {item.cls for cls in OF_PLACES for item in cls.__declared__.values() if hasattr(item, "declared")}
    for cls in set(OF_PLACES) - groups - {MachineSettings}:
        for key in table(cls):
            assert not known(key) or [
                row for row in rows if row.startswith(f"| `{key.name}` |") and tables.cell(key.meaning) in row
            ], key.name

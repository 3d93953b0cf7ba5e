"""Which machines are missing, what they cost, which place they are, and what is told about them. A decider.

plan = up_plan(4, machines, pending, now_s)     what to create, which request to repeat
place_text(settings, machines, known_hosts)     [place.NAME] for `umiak submit --on NAME`
"""

from __future__ import annotations

import hashlib
import json

from umiak.core.value import value
from umiak.submit.machines.machine import RUNNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.submit.machines.machine import RentedMachine, Wanted
    from umiak.submit.machines.settings import MachineSettings

ARRIVED_S = 3600.0
"""A request that was sent so long ago has arrived, or never will."""
HOUR_S = 3600.0
CURRENCY = "CNY"


@value
class UpPlan:
    """What `up` has to do."""

    there: tuple[RentedMachine, ...]
    """Those that count."""
    unusable: tuple[RentedMachine, ...]
    repeated: tuple[Wanted, ...]
    """Requests of an `up` that was broken off, not all of whose machines are to be seen."""
    missing: int
    """To be asked for by a new request."""
    surplus: int
    """More than wanted."""

    @property
    def created(self) -> int:
        """How many machines the requests make."""
        return self.missing + sum(_unseen(each, (*self.there, *self.unusable)) for each in self.repeated)


def mine(machines: Iterable[RentedMachine], group: str, owner: str) -> list[RentedMachine]:
    """Those of a group that one person has made, the oldest first: new ones get the last ranks."""
    own_machines = [each for each in machines if each.group == group and each.owner == owner and each.is_there]
    return sorted(own_machines, key=lambda each: (each.created_s or 0.0, each.name, each.id))


def up_plan(count: int, machines: Sequence[RentedMachine], pending: Sequence[Wanted], now_s: float) -> UpPlan:
    """What is missing for so many machines. What an earlier request may still bring is not asked for again."""
    usable = tuple(each for each in machines if each.is_usable)
    repeated = tuple(each for each in pending if _unseen(each, machines) and now_s - each.sent_s < ARRIVED_S)
    coming = sum(_unseen(each, machines) for each in repeated)
    return UpPlan(
        there=usable,
        unusable=tuple(each for each in machines if not each.is_usable),
        repeated=repeated,
        missing=max(0, count - len(usable) - coming),
        surplus=max(0, len(usable) + coming - count),
    )


def unseen(pending: Sequence[Wanted], machines: Sequence[RentedMachine]) -> tuple[Wanted, ...]:
    """Requests not all of whose machines are to be seen yet."""
    return tuple(each for each in pending if _unseen(each, machines))


def _unseen(wanted: Wanted, machines: Sequence[RentedMachine]) -> int:
    return max(0, wanted.count - sum(each.run == wanted.token for each in machines))


def image_token(machine_id: str, name: str) -> str:
    """The same for the same image, so that a repeated request makes none."""
    return hashlib.sha256(f"{machine_id} {name}".encode()).hexdigest()[:40]


# ---- money


def money(amount: float) -> str:
    """``CNY 12.60``; of small amounts more digits."""
    return f"{CURRENCY} {amount:.2f}" if amount >= 1 or amount == 0 else f"{CURRENCY} {amount:.4f}"


def so_far(machine: RentedMachine, hourly: float | None, now_s: float) -> float | None:
    """What a machine has cost, by today's price."""
    if hourly is None or machine.created_s is None:
        return None
    return max(0.0, now_s - machine.created_s) / HOUR_S * hourly


def price_lines(plan: UpPlan, settings: MachineSettings, hourly: float | None, release_after_s: float) -> list[str]:
    """What a person should know before saying yes."""
    what = f"{plan.created} x {settings.spec} in {settings.zone}"
    hours = release_after_s / HOUR_S
    if hourly is None:
        return [f"to create: {what}; the cloud told no price"]
    each = plan.created * hourly
    lines = [
        f"to create: {what}",
        f"price: {money(hourly)} an hour each, {money(each)} an hour together, {money(each * hours)} until their release",
    ]
    if settings.bandwidth:
        lines.append(f"not in it: public addresses of {settings.bandwidth} Mbit/s")
    return lines


# ---- the place


def address(machine: RentedMachine, settings: MachineSettings) -> str:
    """Where ssh finds it: with a public address there, else inside."""
    return (machine.public or "") if settings.bandwidth else machine.internal


def is_ready(machine: RentedMachine, settings: MachineSettings) -> bool:
    """Whether it runs and has its address."""
    return machine.word == RUNNING and bool(address(machine, settings))


def place_text(settings: MachineSettings, machines: Sequence[RentedMachine], known_hosts: str) -> str:
    """The place as umiak.toml has it."""
    port = "" if settings.port == 22 else f":{settings.port}"
    hosts = [f"{address(each, settings)}{port}" for each in machines]
    settings_of_place: JsonObject = {"backend": "ssh", "hosts": hosts, "user": settings.user}
    if settings.bandwidth and all(each.internal for each in machines):
        settings_of_place["addresses"] = [each.internal for each in machines]
    settings_of_place |= {"key": settings.key} if settings.key else {}
    settings_of_place["known_hosts"] = known_hosts
    settings_of_place |= {"python": settings.python} if settings.python != "python3" else {}
    lines = [
        f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in settings_of_place.items()
    ]  # TOML writes them alike
    return "".join(f"{line}\n" for line in (f"[place.{table_key(settings.group)}]", *lines))


def known_hosts_text(settings: MachineSettings, machines: Sequence[RentedMachine], keys: Mapping[str, str]) -> str:
    """The host keys as ssh has them in its file."""
    lines = []
    for each in machines:
        host = address(each, settings)
        name = host if settings.port == 22 else f"[{host}]:{settings.port}"
        lines.append(f"{name} {keys[each.id]}\n")
    return "".join(lines)


def table_key(name: str) -> str:
    """A name as a key of TOML: with a dot in quotes."""
    return name if name.replace("-", "").replace("_", "").isalnum() else json.dumps(name)


# ---- telling


def data(machine: RentedMachine, hourly: float | None, now_s: float) -> JsonObject:
    """``--json``."""
    cost = so_far(machine, hourly, now_s)
    return {
        "id": machine.id,
        "name": machine.name,
        "machines": machine.group,
        "owner": machine.owner,
        "run": machine.run,
        "state": machine.word,
        "internal": machine.internal or None,
        "public": machine.public or None,
        "spec": machine.spec,
        "zone": machine.zone,
        "created_s": machine.created_s,
        "release_s": machine.release_s,
        "hourly": hourly,
        "so_far": None if cost is None else round(cost, 4),
        "currency": CURRENCY,
    }

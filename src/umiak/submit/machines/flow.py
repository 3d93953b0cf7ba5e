"""Rents machines, makes images of them, and releases them. A program.

    flow = MachinesFlow(settings, context)
    with flow.notes.held():
        plan = flow.plan(count)          what is missing
        flow.create(plan, ...)           once, whatever happens to the answers
        flow.ready(...)                  they run, ssh answers, and there is a place of them

Machines are known by their tags.
What the notes of this machine say is only about requests whose answer nobody has seen.
"""

from __future__ import annotations

import secrets
import time

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.cloud.api import GONE, REFUSED_KEY, CloudFailure
from umiak.submit.machines import bcc, creator, decisions, host_keys
from umiak.submit.machines.machine import Wanted
from umiak.submit.machines.notes import Notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from umiak.submit.backend import SubmitContext
    from umiak.submit.machines.decisions import UpPlan
    from umiak.submit.machines.machine import MachineImage, MachinesApi, RentedMachine
    from umiak.submit.machines.settings import MachineSettings

    T = TypeVar("T")

IMAGE_READY, IMAGE_BAD = "Available", ("CreateFailed", "NotAvailable", "Error")


class MachinesFlow:
    """One group of machines."""

    def __init__(self, settings: MachineSettings, context: SubmitContext) -> None:
        self.settings = settings
        self.context = context
        self.notes = Notes(context, settings.group)
        self.api: MachinesApi = bcc.connect(settings, context.environ)

    # ---- up

    def machines(self) -> list[RentedMachine]:
        """Those of this group that are there, the oldest first."""
        listed = self.asked(lambda: self.api.list(self.settings.group), "machines can't be listed")
        return decisions.mine(listed, self.settings.group, self.settings.owner)

    def plan(self, count: int) -> UpPlan:
        return decisions.up_plan(count, self.machines(), self.notes.pending, time.time())

    def price(self) -> float | None:
        """Of one machine, for an hour; None, and told why, if the cloud does not tell."""
        try:
            return sdk.with_retries(lambda: self.api.price(self.settings.spec, self.settings.zone))
        except CloudFailure as error:
            if error.status in REFUSED_KEY:
                raise self.failed(error, "the price can't be asked for") from None
            self.context.tell(f"note: the price can't be asked for: {error}")
            return None

    def create(self, plan: UpPlan, release_s: float) -> list[str]:
        """Carry out a plan; ids of what was created. Every machine, new or old, gets the release time."""
        fresh = [Wanted(token=secrets.token_hex(16), count=plan.missing, sent_s=time.time())] if plan.missing else []
        wanted = [*plan.repeated, *fresh]
        if wanted:
            self.notes.expect(wanted)  # before it is sent
        ids = [each.id for each in (*plan.there, *plan.unusable)]
        machines = creator.ask(self.settings, wanted, ids, release_s, self.context.environ, self.notes.lock_fd)
        # What was obeyed stays until it is seen: a list may be a little behind.
        refused = set(machines.done[-1:]) if machines.refused else set()
        self.notes.expect([each for each in wanted if each.token not in refused])
        for each in machines.unreleased:
            what = f"{each} has no release time: the cloud will not release it by itself"
            hint = f"set it: umiak machines up {self.settings.group}; or release it: umiak machines down {self.settings.group}"
            self._warn(Problem(code="UM-MACHINES-005", what=what, hint=hint))
        if machines.refused:
            raise self.failed(CloudFailure(machines.status, machines.refused), "no machine was created")
        if machines.unclear:
            raise UmiakError.refused(
                "UM-MACHINES-006",
                f"nobody knows whether machines were created: {self.settings.group}",
                why=machines.unclear,
                hint=f"repeat it, nothing is created twice: umiak machines up {self.settings.group}; "
                f"or release what there is: umiak machines down {self.settings.group}",
            )
        return list(machines.ids)

    def ready(self, made: list[str], count: int, deadline: float) -> list[RentedMachine]:
        """Wait until they run and ssh answers; then write their place."""
        words: dict[str, str] = {}
        while True:
            machines = self.machines()
            self.notes.expect(decisions.unseen(self.notes.pending, machines))
            seen = {each.id for each in machines}
            usable = [each for each in machines if each.is_usable]
            for each in machines:
                if words.get(each.id) != each.word:
                    words[each.id] = each.word
                    self.context.tell(f"{each.id}: {each.word}")
            if bad := [each for each in machines if not each.is_usable]:
                raise self._stuck(f"the cloud could not make {', '.join(each.id for each in bad)}: {bad[0].word}")
            waits = [each.id for each in usable if not decisions.is_ready(each, self.settings)]
            waits += [each for each in made if each not in seen]
            if not waits and len(usable) >= count:
                break
            if time.monotonic() > deadline:
                raise self._stuck(f"not running in time: {', '.join(waits) or 'some'}")
            time.sleep(self.settings.poll_s)
        self._reach(usable, deadline)
        text = decisions.place_text(self.settings, usable, self.notes.known_hosts_file)
        keys = decisions.known_hosts_text(self.settings, usable, self.notes.keys)
        self.notes.write_place(text, keys)
        return usable

    def _reach(self, machines: list[RentedMachine], deadline: float) -> None:
        """Let ssh answer on all of them, and keep the host key that each shows first."""
        for each in machines:
            host = decisions.address(each, self.settings)
            while True:
                try:
                    key = host_keys.fetch(host, self.settings.port, self.settings.timeout_s)
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise self._stuck(f"ssh does not answer in time on {host}: {error}") from None
                time.sleep(self.settings.poll_s)
            known = self.notes.keys.get(each.id)
            if known and known != key:
                raise UmiakError.refused(
                    "UM-MACHINES-007",
                    f"{host} shows another host key than before: {host_keys.fingerprint(key)}",
                    why=f"{each.id} had {host_keys.fingerprint(known)}; it was installed again, or somebody else answers",
                    hint=f"release the machines: umiak machines down {self.settings.group}",
                )
            if not known:
                self.context.tell(f"{each.id}: ssh answers at {host}, host key {host_keys.fingerprint(key)}")
            self.notes.keys[each.id] = key
        there = {each.id for each in machines}
        self.notes.keys = {name: key for name, key in self.notes.keys.items() if name in there}
        self.notes.write()

    # ---- images

    def image(self, name: str, machine_id: str, deadline: float) -> MachineImage:
        """An image of a machine; the one of this name if there is one. Waits until it can be used."""
        existing = self._image(name)
        if existing:
            self.context.tell(f"note: there is an image of this name: {existing.id}")
        else:
            machines = [each for each in self.machines() if not machine_id or each.id == machine_id]
            if not machines:
                what = f"no machine to make an image of: {machine_id or self.settings.group}"
                hint = f"`umiak machines list {self.settings.group}` shows what there is"
                raise UmiakError.of("UM-MACHINES-001", what, hint=hint)
            first = machines[0]
            self.context.tell(f"making an image of {first.id}; the machine may pause")
            token = decisions.image_token(first.id, name)
            self.asked(lambda: self._make_image(first.id, name, token), "no image was made")
        while True:
            existing = self._image(name)
            if existing and existing.word == IMAGE_READY:
                return existing
            if existing and existing.word in IMAGE_BAD:
                what, hint = (
                    f"the cloud could not make the image: {existing.id}: {existing.word}",
                    "choose another name",
                )
                raise UmiakError.refused("UM-MACHINES-008", what, hint=hint)
            if time.monotonic() > deadline:
                what = f"the image is not ready in time: {name}"
                hint = "the same command again goes on waiting"
                raise UmiakError.refused("UM-MACHINES-008", what, hint=hint)
            time.sleep(self.settings.poll_s)

    def _image(self, name: str) -> MachineImage | None:
        images = self.asked(lambda: self.api.images(name), "images can't be listed")
        return images[0] if images else None

    def _make_image(self, machine_id: str, name: str, token: str) -> None:
        if not self.api.images(name):  # else a request whose answer got lost was obeyed
            self.api.make_image(machine_id, name, token)

    # ---- down

    def down(self, deadline: float) -> list[str]:
        """Release everything of the group, also what a request of a broken-off `up` brings later.
        Ids of what was released.
        """
        asked: set[str] = set()
        # A request that was sent and not answered may arrive until its client would have given up, and a little later.
        settled_s = max([each.sent_s + 2 * self.settings.timeout_s for each in self.notes.pending], default=0.0)
        waits = decisions.unseen(self.notes.pending, self.machines())
        if waits and time.time() < settled_s:
            self.context.tell(f"waiting {settled_s - time.time():.0f} s for a request of an `up` that was broken off")
        while True:
            machines = self.machines()
            for each in machines:
                if each.id not in asked:
                    self.asked(lambda each=each: self._release(each.id), f"{each.id} was not released")  # type: ignore[misc]
                    self.context.tell(f"{each.id}: released")
                    asked.add(each.id)
            if not machines and (time.time() >= settled_s or not waits):
                self.notes.forget()
                return sorted(asked)
            if time.monotonic() > deadline:
                left = (
                    ", ".join(f"{each.id} ({each.word})" for each in machines)
                    or "perhaps those of an unanswered request"
                )
                raise UmiakError.refused(
                    "UM-MACHINES-009",
                    f"not gone in time: {left}",
                    hint=f"look again: umiak machines down {self.settings.group}",
                )
            time.sleep(self.settings.poll_s)

    def _release(self, machine_id: str) -> None:
        try:
            self.api.release(machine_id)
        except CloudFailure as error:
            if error.status not in GONE:
                raise

    # ---- parts

    def asked(self, act: Callable[[], T], consequence: str) -> T:
        """Patiently; UmiakError if it fails for good."""
        try:
            return sdk.with_retries(act)
        except CloudFailure as error:
            raise self.failed(error, consequence) from None

    def failed(self, error: CloudFailure, consequence: str) -> UmiakError:
        group = self.settings.group
        if error.status in REFUSED_KEY:
            hint = f"check {' and '.join(bcc.KEYS)}, and what this key may do"
            problem = Problem(
                code="UM-MACHINES-010", what=f"the key was refused, {consequence}: {group}", why=str(error), hint=hint
            )
        elif error.is_retryable:
            hint = f"look at the network and at region or endpoint of [machines.{group}], and try again"
            problem = Problem(
                code="UM-MACHINES-011", what=f"no answer, {consequence}: {group}", why=str(error), hint=hint
            )
        else:
            hint = f"check [machines.{group}] in umiak.toml, and the quota of the account"
            problem = Problem(
                code="UM-MACHINES-012", what=f"the cloud refused, {consequence}: {group}", why=str(error), hint=hint
            )
        return UmiakError(problem, exit_status=Exit.REFUSED)

    def _stuck(self, what: str) -> UmiakError:
        group = self.settings.group
        hint = (
            f"they cost money: wait on with `umiak machines up {group}`, or release them: umiak machines down {group}"
        )
        return UmiakError.refused("UM-MACHINES-013", what, hint=hint)

    def _warn(self, problem: Problem) -> None:
        for line in problem.lines("warning"):
            self.context.tell(line)

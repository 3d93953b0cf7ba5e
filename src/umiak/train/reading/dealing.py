"""Parts of the data handed out on demand: who has which, what is done, what comes back. A pure decider.

    table = Table(parts=40)
    table, answer = ask(table, "0")         -> Deal(part=0, ticket=1)
    table = note(table, 1, '{"...": 7}')    trainer "0" has come so far, and what it pushed is safe
    table = finish(table, 1)                part 0 is done
    table = lose(table, "1")                whoever was called "1" is dead; its part goes to the next who asks

Nobody idles while there is a part that nobody has. Every part is finished exactly once: what a trainer says counts only under the ticket
of its present deal, and a trainer that was declared lost has none, even if it is alive and merely slow (`finish` then answers
`Stale`, and it has to ask anew). What it had pushed beyond its last note is read again by another: that much, and no more, may be
trained on twice when a trainer dies in a mode without steps in common.

The table is a value that goes through `umiak.core.decode`, so it can be kept with a checkpoint, by trainer 0 or by a server.
"""

from __future__ import annotations

from umiak.core.value import replace, value


@value
class Held:
    """A part that a trainer has."""

    part: int
    trainer: str
    ticket: int
    position: str | None = None
    """Where its reader was, as it last told; None: at the beginning."""


@value
class Returned:
    """A part that came back unfinished."""

    part: int
    position: str | None


@value
class Table:
    """All parts of an epoch. Each is fresh, held, returned or done."""

    parts: int
    fresh: int = 0
    """The first part that nobody has had."""
    held: tuple[Held, ...] = ()
    returned: tuple[Returned, ...] = ()
    """By number."""
    tickets: int = 0
    """How many were given out."""

    @property
    def done(self) -> int:
        """How many parts are finished."""
        return self.fresh - len(self.held) - len(self.returned)

    @property
    def is_over(self) -> bool:
        return self.done == self.parts


@value
class Deal:
    """Read this part, from this position on."""

    part: int
    ticket: int
    position: str | None = None


@value
class Wait:
    """Everything is in somebody's hands; some of it may come back. Ask again."""


@value
class Over:
    """Every part is finished."""


@value
class Stale:
    """This ticket counts no more: its holder was taken for lost, or has finished before."""

    ticket: int


def ask(table: Table, trainer: str) -> tuple[Table, Deal | Wait | Over]:
    """Something to do. A trainer that has something gets the same again: its question, or the answer, was lost."""
    own = next((each for each in table.held if each.trainer == trainer), None)
    if own is not None:
        return table, Deal(part=own.part, ticket=own.ticket, position=own.position)
    if table.returned:
        first, *rest = table.returned
        table = replace(table, returned=tuple(rest))
    elif table.fresh < table.parts:
        first = Returned(part=table.fresh, position=None)
        table = replace(table, fresh=table.fresh + 1)
    else:
        return table, Over() if table.is_over else Wait()
    ticket = table.tickets + 1
    held = Held(part=first.part, trainer=trainer, ticket=ticket, position=first.position)
    deal = Deal(part=first.part, ticket=ticket, position=first.position)
    return replace(table, held=(*table.held, held), tickets=ticket), deal


def note(table: Table, ticket: int, position: str) -> tuple[Table, Stale | None]:
    """Everything before this position is trained on and safe."""
    if not _is_held(table, ticket):
        return table, Stale(ticket=ticket)
    held = [replace(each, position=position) if each.ticket == ticket else each for each in table.held]
    return replace(table, held=tuple(held)), None


def finish(table: Table, ticket: int) -> tuple[Table, Stale | None]:
    """A part is done."""
    if not _is_held(table, ticket):
        return table, Stale(ticket=ticket)
    return replace(table, held=tuple([each for each in table.held if each.ticket != ticket])), None


def lose(table: Table, trainer: str) -> Table:
    """What a trainer had comes back; nothing happens if it had nothing."""
    back = [Returned(part=each.part, position=each.position) for each in table.held if each.trainer == trainer]
    if not back:
        return table
    return replace(
        table,
        held=tuple([each for each in table.held if each.trainer != trainer]),
        returned=tuple(sorted([*table.returned, *back], key=lambda each: each.part)),
    )


def begun_anew(table: Table) -> Table:
    """The table after all trainers were stopped: everything that was held is free again."""
    for trainer in dict.fromkeys(each.trainer for each in table.held):
        table = lose(table, trainer)
    return table


def _is_held(table: Table, ticket: int) -> bool:
    return any(each.ticket == ticket for each in table.held)

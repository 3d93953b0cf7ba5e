"""Stories of the master alone: what nodes say to it and what becomes of them goes in, what it sends comes out.

    $ master nnodes=2:4 max_restart=2       a master named a; its node still has to join
    $ join b [host=] [rank=] [trainers=] [servers=] [nnodes=] [mode=]
    $ say b done | ready | stopped | leaving [15]
    $ say b failed [key=] [code=] [signal=] [at=] [hung] [port_taken] [not_started]
    $ stopped a b c                         all of them say that their workers are gone
    $ closed b                              its connection was closed: it is dead
    $ silent b                              nothing is heard of it
    $ tick 5                                five seconds pass
    $ show                                  where the job stands

A master that takes over: ``$ master b after=abc dead=a silent=c`` comes after generation 1 of a, b and c.
"""

from __future__ import annotations

from tests.support import formation, host_of, offer, setting, terms
from tests.support.stories.telling import TERM_WORDS, master_action, take_terms
from umiak.core.cluster import Role
from umiak.core.value import replace
from umiak.launch import events
from umiak.launch.master import rendezvous
from umiak.launch.protocol import Done, Failed, Failure, FailureKind, FromNode, Join, Leaving, Offer, Ready, Stopped

WHAT = {
    FailureKind.HUNG: "no output and no umiak.progress() for 60 s",
    FailureKind.NOT_STARTED: "./train: No such file or directory",
}


class MasterStory:
    """One master and the time that passes for it."""

    def __init__(
        self,
        *plain: str,
        after: str = "",
        dead: str = "",
        silent: str = "",
        reachable: str = "abcdef",
        refusals_until: str = "5",
        **given: str,
    ) -> None:
        self.now = 0.0
        self.terms = take_terms(plain, given)
        name = next((word for word in plain if len(word) == 1), "a")
        shape = {word: int(given.pop(word)) for word in ("trainers", "servers") if word in given}
        assert not given, f"unknown: {given}"
        lead = events.Lead(
            previous=formation(after, **shape) if after else None,
            dead=tuple(dead),
            silent=tuple(silent),
            reachable=tuple(reachable),
            refusals_count_until=float(refusals_until),
        )
        self.master = rendezvous.Coordinator(setting(self.terms, name), lead, now=self.now)
        self.beginning = [f"probe {probe.name}" for probe in self.master.probes()]
        self._offers: dict[str, Offer] = {}

    def do_join(self, *names: str, **given: str) -> list[str]:
        other_terms = {word: given.pop(word) for word in ("nnodes", "job_id") if word in given}
        joined_with = self.terms
        if "nnodes" in other_terms:
            other = terms(other_terms["nnodes"])
            joined_with = replace(joined_with, least=other.least, most=other.most)
        if "job_id" in other_terms:
            joined_with = replace(joined_with, job_id=other_terms["job_id"])
        differing = {name: given.pop(name) for name in [*given] if name in TERM_WORDS}
        for word, text in differing.items():
            name, _ = TERM_WORDS[word]
            joined_with = replace(joined_with, **{name: getattr(take_terms((), {word: text}), name)})
        numbers = {word: int(given.pop(word)) for word in ("rank", "trainers", "servers") if word in given}
        output = []
        for name in names:
            self._offers[name] = offer(name, host=given.get("host", host_of(name)), **numbers)
            output += self._feed(self._said(name, Join(offer=self._offers[name], terms=joined_with)))
        return output

    def do_say(self, name: str, what: str, *words: str, **given: str) -> list[str]:
        generation = int(given.pop("generation", self._generation()))
        message: FromNode
        match what:
            case "ready":
                message = Ready(generation=generation)
            case "done":
                message = Done(generation=generation)
            case "stopped":
                message = Stopped(generation=generation, ports=self._offers[name].ports)
            case "leaving":
                message = Leaving(signal=int(words[0]) if words else 15)
            case "failed":
                message = Failed(generation=generation, failure=self._failure(name, words, given))
            case _:
                raise ValueError(what)
        return self._feed(self._said(name, message))

    def do_stopped(self, *names: str) -> list[str]:
        return [line for name in names for line in self.do_say(name, "stopped")]

    def do_closed(self, name: str) -> list[str]:
        return self._feed(events.NodeClosed(name=name, at=self.now))

    def do_silent(self, name: str) -> list[str]:
        return self._feed(events.NodeSilent(name=name, at=self.now))

    def do_refused(self, name: str) -> list[str]:
        return self._feed(events.NodeRefused(name=name, at=self.now))

    def do_takeover(self, name: str, generation: str, how: str, *words: str, lineage: str = "of-a") -> list[str]:
        """A launcher calls and says that it leads: ``takeover b 1 gathering``, ``takeover b 1 ready``, ``takeover b 2 formed``."""
        call = events.TakeoverCalled(
            call=1,
            host=host_of(name),
            port=7000,
            generation=int(generation),
            lineage=lineage,
            formed=how == "formed",
            ready=how == "ready",
            proven="token" in words,
        )
        return self._feed(call)

    def do_come_here(self, name: str) -> list[str]:
        """The launcher that was called answers that the job is led from there."""
        return self._feed(events.TakeoverRefused(host=host_of(name), port=7000))

    def do_rivals(self) -> list[str]:
        """Where this master says that it leads."""
        return [f"{host}:{port}" for host, port in self.master.rivals()]

    def do_tick(self, seconds: str) -> list[str]:
        """Let time pass, with a tick at each moment that the master asks for on the way."""
        until = self.now + float(seconds)
        output = []
        while (due := self.master.next_deadline) is not None and due <= until:
            self.now = max(self.now, due)
            output += [f"at {self.now:g}: {line}" for line in self._feed(events.Tick())]
            again = self.master.next_deadline
            assert again is None or again > self.now, "a tick was asked for, given, and is asked for again"
        self.now = until
        return output

    def do_show(self) -> list[str]:
        cluster = self.master.cluster
        nodes = f" of {' '.join(cluster.names)}" if cluster else ""
        return [f"{self.master.phase.value}, generation {self._generation()}{nodes}, {self.master.restarts} restarts"]

    def do_ranks(self) -> list[str]:
        """Who sits where in the last formation."""
        cluster = self.master.cluster
        assert cluster is not None
        return [f"rank {rank}: {node.name} on {node.host}" for rank, node in enumerate(cluster.nodes)]

    def _failure(self, name: str, words: tuple[str, ...], given: dict[str, str]) -> Failure:
        given = {"key": "trainer.0", **given}
        role = Role(given["key"].split(".")[0])
        kind = FailureKind.KILLED if "signal" in given else FailureKind.EXITED
        if "hung" in words:
            kind = FailureKind.HUNG
        if "not_started" in words:
            kind = FailureKind.NOT_STARTED
        seats = self.master.cluster.seats_on(name) if self.master.cluster else ()
        rank = next((seat.rank for seat in seats if seat.key == given["key"]), None)
        return Failure(
            kind=kind,
            at=float(given.get("at", self.now)),
            node=name,
            host=self._offers[name].host,
            role=role,
            rank=rank,
            key=given["key"],
            exit_code=None if "signal" in given else int(given.get("code", 1)),
            signal=int(given["signal"]) if "signal" in given else None,
            port_taken="port_taken" in words,
            what=WHAT.get(kind, ""),
        )

    def _said(self, name: str, message: FromNode) -> events.MessageFromNode:
        return events.MessageFromNode(name=name, message=message, at=self.now)

    def _feed(self, event: events.RendezvousEvent) -> list[str]:
        return [master_action(action) for action in self.master.step(self.now, event)]

    def _generation(self) -> int:
        return self.master.cluster.generation if self.master.cluster else 0

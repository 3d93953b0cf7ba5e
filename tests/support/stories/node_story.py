"""Stories of one node alone: links, workers, signals and the master's messages go in, what the node does comes out.

$ node b nnodes=2 [meeting=alone|address|etcd] [leads] [trainers=] [servers=]      and it starts
$ link up | refused | lost WHY | fatal WHY | closed | silent        its link to the master
$ link moved HOST PORT            the node that was asked does not lead, and says who does
$ reachable b c                   these launchers have answered a call
$ elected   /   $ leader HOST PORT                                     what etcd says
$ form 1 abc | standby | go 1 | stop 1 WHY [stacks] [grace=] | restart server.0
$ finish 0 [at_once] | refuse 2 TEXT | gone | evict | waiting TEXT | moved HOST PORT     messages of the master
$ exit trainer.0 | fail trainer.0 code=3 | hung trainer.0 | listening server.0     its workers
$ ports 30000 30001               these ports are held for the next generation
$ signal 15                       a signal for the launcher
$ tick 5                          five seconds pass
"""

from __future__ import annotations

from tests.support import formation, offer
from tests.support.stories.telling import node_action, take_terms
from umiak.core.cluster import Role
from umiak.launch import events
from umiak.launch.node import machine
from umiak.launch.protocol import (
    Evict,
    Failure,
    FailureKind,
    Finish,
    Form,
    FromMaster,
    Go,
    Moved,
    Refuse,
    RestartWorker,
    Standby,
    Stop,
    Waiting,
)

MASTER = "10.0.0.1"


class NodeStory:
    """One node and the time that passes for it."""

    def __init__(self, *plain: str, meeting: str = "address", **given: str) -> None:
        self.now = 0.0
        name = next((word for word in plain if len(word) == 1), "b")
        terms = take_terms(plain, given)
        self._shape = {word: int(given.pop(word)) for word in ("trainers", "servers") if word in given}
        has_address = meeting == "address"
        self.node = machine.NodeMachine(
            events.NodeSetting(
                terms=terms,
                offer=offer(name, **self._shape, **({"host": given.pop("host")} if "host" in given else {})),
                discovery=events.Discovery(meeting),
                leads="leads" in plain,
                master_host=MASTER if has_address else "",
                master_port=7000 if has_address else 0,
                callback_key=name,
            )
        )
        assert not given, f"unknown: {given}"
        self.beginning = [node_action(action) for action in self.node.start(self.now)]

    # ---- links

    def do_link(self, what: str, *words: str) -> list[str]:
        match what:
            case "up":
                return self._feed(events.LinkUp(host=words[0] if words else "10.0.0.99"))
            case "refused":
                return self._feed(events.LinkFailed(refused=True, why="Connection refused"))
            case "lost":
                return self._feed(events.LinkFailed(refused=False, why=" ".join(words)))
            case "fatal":
                return self._feed(events.LinkFailed(refused=False, why=" ".join(words), fatal=True))
            case "closed":
                return self._feed(events.LinkClosed())
            case "silent":
                return self._feed(events.LinkSilent())
            case "moved":
                return self._feed(events.LinkMoved(host=words[0], port=int(words[1])))
        raise ValueError(what)

    def do_elected(self) -> list[str]:
        return self._feed(events.Elected())

    def do_leader(self, host: str, port: str) -> list[str]:
        return self._feed(events.LeaderAt(host=host, port=int(port)))

    # ---- messages of the master

    def do_form(self, generation: str, names: str, restarts: str = "0") -> list[str]:
        cluster = formation(names, generation=int(generation), restarts=int(restarts), **self._shape)
        return self._hear(Form(cluster=cluster))

    def do_standby(self, names: str = "") -> list[str]:
        return self._hear(Standby(text="standing by", cluster=formation(names) if names else None))

    def do_go(self, generation: str) -> list[str]:
        return self._hear(Go(generation=int(generation)))

    def do_stop(self, generation: str, *words: str, grace: str = "5") -> list[str]:
        why = " ".join(word for word in words if word != "stacks")
        return self._hear(
            Stop(generation=int(generation), why=why, grace_s=float(grace), dump_stacks="stacks" in words)
        )

    def do_restart(self, key: str) -> list[str]:
        return self._hear(RestartWorker(generation=self._generation(), key=key, restarts=1))

    def do_finish(self, status: str, *words: str) -> list[str]:
        text = " ".join(word for word in words if word != "at_once")
        return self._hear(Finish(exit_status=int(status), words=text, at_once="at_once" in words))

    def do_refuse(self, status: str, *words: str) -> list[str]:
        return self._hear(Refuse(text=" ".join(words), code="UM-MEET-007", exit_status=int(status)))

    def do_gone(self) -> list[str]:
        """The master that was asked has ended, cut off."""
        return self._hear(Refuse(text="the job has ended", code="UM-MEET-009", gone=True))

    def do_evict(self) -> list[str]:
        return self._hear(Evict(text="it has not heard this node for 5 s"))

    def do_reachable(self, *names: str) -> list[str]:
        """These launchers have answered a call."""
        reached = [events.Reachable(name=name, generation=self._generation()) for name in names]
        return [line for event in reached for line in self._feed(event)]

    def do_waiting(self, *words: str) -> list[str]:
        return self._hear(Waiting(text=" ".join(words)))

    def do_moved(self, host: str, port: str) -> list[str]:
        return self._hear(Moved(host=host, port=int(port)))

    # ---- workers

    def do_exit(self, *keys: str) -> list[str]:
        return [
            line for key in keys for line in self._feed(events.WorkerExited(key=key, generation=self._generation()))
        ]

    def do_fail(self, key: str, code: str = "1") -> list[str]:
        failure = self._failure(key, FailureKind.EXITED, exit_code=int(code))
        return self._feed(events.WorkerExited(key=key, generation=self._generation(), failure=failure))

    def do_hung(self, key: str) -> list[str]:
        failure = self._failure(key, FailureKind.HUNG)
        return self._feed(events.WorkerHung(key=key, generation=self._generation(), failure=failure))

    def do_listening(self, key: str) -> list[str]:
        return self._feed(events.WorkerListening(key=key, generation=self._generation()))

    # ---- this machine

    def do_ports(self, *numbers: str) -> list[str]:
        return self._feed(events.PortsHeld(ports=tuple(map(int, numbers))))

    def do_signal(self, number: str) -> list[str]:
        return self._feed(events.SignalReceived(number=int(number)))

    def do_tick(self, seconds: str) -> list[str]:
        """Let time pass, with a tick at each moment that the node asks for on the way."""
        until = self.now + float(seconds)
        output = []
        while (due := self.node.next_deadline) is not None and due <= until:
            self.now = max(self.now, due)
            output += [f"at {self.now:g}: {line}" for line in self._feed(events.Tick())]
            again = self.node.next_deadline
            assert again is None or again > self.now, "a tick was asked for, given, and is asked for again"
        self.now = until
        return output

    def do_show(self) -> list[str]:
        workers = " ".join(self.node.worker_keys) or "none"
        return [f"{self.node.phase.value}, generation {self._generation()}, workers: {workers}"]

    def _failure(self, key: str, kind: FailureKind, exit_code: int | None = None) -> Failure:
        assert self.node.cluster is not None
        name = self.node.setting.offer.name
        seat = next(seat for seat in self.node.cluster.seats_on(name) if seat.key == key)
        return Failure(
            kind=kind,
            at=self.now,
            node=name,
            host=seat.host,
            role=Role(seat.role),
            rank=seat.rank,
            key=key,
            exit_code=exit_code,
            what="no output and no umiak.progress() for 60 s" if kind is FailureKind.HUNG else "",
        )

    def _hear(self, message: FromMaster) -> list[str]:
        return self._feed(events.MessageFromMaster(message=message))

    def _feed(self, event: events.NodeEvent) -> list[str]:
        return [node_action(action) for action in self.node.step(self.now, event)]

    def _generation(self) -> int:
        return self.node.cluster.generation if self.node.cluster else 0

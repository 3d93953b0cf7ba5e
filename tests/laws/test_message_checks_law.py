"""Whatever another launcher says: it is refused, or it is harmless, and no decider stumbles over it.

Messages are made as a stranger would make them: well-formed ones with a few pieces exchanged for others. What passes the
checks is given to the deciders of a job, which must take it, and to the contract of a worker, which must stay plain words.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import formation, offer, terms
from tests.support.effort import effort
from umiak import contracts
from umiak.core.cluster import Cluster, Mode, Role
from umiak.core.decode import Malformed, encode_tagged
from umiak.core.value import fields, is_value
from umiak.launch import events, message_checks, protocol
from umiak.launch.master.rendezvous import Coordinator
from umiak.launch.node.machine import NodeMachine
from umiak.launch.protocol import Failure, FailureKind
from umiak.launch.reports import words

OWN = offer("a")

numbers = st.sampled_from([-(2**63), -7, -1, 0, 1, 2, 3, 64, 65, 255, 256, 65535, 65536, 2**31, 2**63, 10**30])
reals = st.sampled_from([-1.0, 0.0, 0.5, 1e9, 1e300, float("inf"), float("-inf"), float("nan")])
texts = st.sampled_from(
    [
        *(
            "",
            "a",
            "b",
            "c",
            "trainer.0",
            "server.0",
            "10.0.0.1",
            "fe80::1%eth0",
            "x; touch x #",
            "-rf",
            "$(id)",
            "a b",
        ),
        *("\x1b[2J\x1b]0;owned\x07", "two\nlines", "\r", "\u202e", "\ud800", "\x00", "é", "x" * 300, "../../etc"),
        *("collective", "ps", "exited", "node-lost", "UM-JOB-001"),
    ]
)
anything = st.recursive(
    st.none() | st.booleans() | numbers | reals | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)

FAILURE = Failure(
    kind=FailureKind.EXITED, at=5.0, node="b", host="10.0.0.2", role=Role.TRAINER, rank=1, key="trainer.0", exit_code=7
)


ONE = formation("ab")
OF_NODES = [
    protocol.Join(offer=offer("b"), terms=terms("2:4")),
    protocol.Join(offer=offer("c", rank=1), terms=terms("2:4")),
    protocol.Accepted(generation=1),
    protocol.Ready(generation=1),
    protocol.Done(generation=1),
    protocol.Failed(generation=1, failure=FAILURE),
    protocol.Stopped(generation=1, ports=(20100, 20101)),
    protocol.Stopped(generation=1, ports=()),
    protocol.Leaving(signal=15),
]
OF_MASTERS = [
    protocol.Waiting(text="waiting"),
    protocol.Form(cluster=ONE),
    protocol.Form(cluster=formation("ab", generation=2, coordinator="b")),
    protocol.Form(cluster=formation("ab", generation=2), basis=(("a", "b"), ("b", "c"))),
    protocol.Committed(generation=1),
    protocol.Evict(text="not heard"),
    protocol.Go(generation=1),
    protocol.Stop(generation=1, why="", grace_s=1.0, dump_stacks=True),
    protocol.RestartWorker(generation=1, key="trainer.0", restarts=1),
    protocol.Standby(text="", cluster=ONE),
    protocol.Finish(exit_status=1, words="it failed", code="UM-JOB-001", failure=FAILURE),
    protocol.Refuse(text="no", code="UM-MEET-009"),
    protocol.Moved(host="10.0.0.9", port=80),
]


def places_in(plain: Any, *before: Any) -> list[tuple[Any, ...]]:
    """The way to every piece of a message, the large ones as well."""
    if not isinstance(plain, (dict, list)):
        return [before]
    inside = plain.items() if isinstance(plain, dict) else enumerate(plain)
    return [*([before] if before else []), *(way for key, each in inside for way in places_in(each, *before, key))]


@st.composite
def forged(draw: st.DrawFn, kinds: list[Any], most: int = 2) -> Any:
    """A message of one of these kinds with up to so many of its pieces exchanged; as often as not it is what it should be."""
    plain = json.loads(json.dumps(encode_tagged(draw(st.sampled_from(kinds)))))
    for _ in range(draw(st.integers(-most, most))):
        *way, last = draw(st.sampled_from(places_in(plain)))
        inside = plain
        for key in way:
            inside = inside[key]
        like = {
            int: numbers,
            float: reals,
            str: st.sampled_from("abcd") | texts,
            type(None): numbers,
            list: st.just([]),
        }
        inside[last] = draw(like.get(type(inside[last]), anything) | anything)
    return plain


def from_node(plain: Any, joined: Any = None) -> Any:
    try:
        return message_checks.from_node(plain, master="a", joined=joined)
    except Malformed:
        return None


def from_master(plain: Any) -> Any:
    try:
        return message_checks.from_master(plain, own=OWN)
    except Malformed:
        return None


def every_text(item: Any) -> list[tuple[str, str]]:
    """All texts in a message with the names of their fields."""
    found: list[tuple[str, str]] = []
    for name in fields(item):
        inside = getattr(item, name)
        for each in inside if isinstance(inside, tuple) else (inside,):
            if is_value(each):
                found += every_text(each)
            elif isinstance(each, str):
                found.append((name, each))
    return found


@effort(4)
@given(forged(OF_NODES + OF_MASTERS, 3) | anything)
def test_what_another_launcher_says_is_refused_or_harmless(plain: Any) -> None:
    for message in (from_node(plain), from_master(plain)):
        for name, text in every_text(message) if message else ():
            several_lines = name in ("log_end", "traceback")
            assert (text.replace("\n", "").replace("\t", "") if several_lines else text).isprintable()
            assert name != "host" or set(text) <= set(HOST)


HOST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:%"


def lines(kinds: list[Any], *happens: str) -> st.SearchStrategy[list[Any]]:
    """A talk: what is said on which of two links, what else happens there, and how much time passes then."""
    said = st.tuples(st.sampled_from("xy"), forged(kinds), st.sampled_from([0.0, 0.0, 1.0, 40.0]))
    else_ = st.tuples(st.sampled_from("xy"), st.sampled_from(happens), st.sampled_from([0.0, 1.0, 700.0]))
    return st.lists(st.one_of(said, said, said, else_), max_size=20)


class Master:
    """A master with its own node, which does what it is told, and links to others."""

    def __init__(self, nnodes: str) -> None:
        self.now = 0.0
        self.terms = terms(nnodes)
        setting = events.NodeSetting(terms=self.terms, offer=OWN, lineage="here")
        self.decider = Coordinator(setting, events.Lead(), now=0.0)
        self.joined: dict[str, Any] = {}
        self.step(events.MessageFromNode(name="a", message=protocol.Join(offer=OWN, terms=self.terms)))

    def step(self, event: Any) -> None:
        for decided in self.decider.step(self.now, event):
            if not isinstance(decided, events.Send):
                continue
            message = decided.message
            if "a" in decided.names and isinstance(message, protocol.Stop):
                self.step(
                    events.MessageFromNode(
                        name="a", message=protocol.Stopped(generation=message.generation, ports=OWN.ports)
                    )
                )
            if isinstance(message, protocol.Form):
                # What the master makes of it all passes the checks of the nodes, and a worker can be told about it.
                encoded = json.loads(json.dumps(encode_tagged(message)))
                assert message_checks.from_master(encoded, own=OWN) == message
                contract_of(message.cluster, Mode.COLLECTIVE)
                self.step(
                    events.MessageFromNode(name="a", message=protocol.Accepted(generation=message.cluster.generation))
                )

    def hear(self, link: str, plain: Any) -> None:
        """As `agent` does it."""
        message = from_node(plain, self.joined.get(link))
        if link not in self.joined:
            if isinstance(message, protocol.Join) and not self.decider.is_name_taken(message.offer):
                self.joined[link] = message.offer
            else:
                return
        name = self.joined[link].name
        if message is None:
            self.step(events.NodeSilent(name=name, at=self.now))
        else:
            self.step(events.MessageFromNode(name=name, message=message, at=self.now))

    def lose(self, link: str, how: str) -> None:
        if link in self.joined:
            name = self.joined.pop(link).name
            kind = events.NodeClosed if how == "closed" else events.NodeSilent
            self.step(kind(name=name, at=self.now))


def contract_of(cluster: Cluster, mode: Mode) -> None:
    """What the workers of node a are told; hosts in it are plain words."""
    setting = contracts.WorkerSetting(mode=mode, log_dir="/log")
    for seat in cluster.seats_on("a"):
        contract = contracts.environment(cluster, seat, setting)
        for name in ("MASTER_ADDR", "PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS"):
            assert set(contract.get(name, "")) <= set(HOST + "[],")


@effort(6)
@given(lines(OF_NODES, "closed", "silent"), st.sampled_from(["2", "2:4", "1:3"]), st.sampled_from(["", "b", "bc"]))
def test_no_peer_makes_the_master_stumble(talk: list[tuple[str, Any, float]], nnodes: str, honest: str) -> None:
    """Each link has a node of its own, where it said first who it is. Some begin well."""
    master = Master(nnodes)
    for link, name in zip("xy", honest, strict=False):
        master.hear(link, encode_tagged(protocol.Join(offer=offer(name), terms=master.terms)))
    master.now += 40.0 if honest else 0.0
    master.step(events.Tick())
    for link, said, passes_s in talk:
        if isinstance(said, str):
            master.lose(link, said)
        else:
            master.hear(link, _up_to_date(said, master))
        master.now += passes_s
        master.step(events.Tick())


def _up_to_date(said: Any, master: Master) -> Any:
    """A message that the master does not pass over for its terms or its generation, if they were not exchanged."""
    if isinstance(said.get("terms"), dict) and said["terms"].get("most") == 4:
        said["terms"].update(least=master.terms.least, most=master.terms.most)
    if said.get("generation") == 1 and master.decider.cluster:
        said["generation"] = master.decider.cluster.generation
    return said


@effort(6)
@given(lines(OF_MASTERS, "closed", "silent", "refused", "no answer", "exited"), st.sampled_from(Mode))
def test_no_master_makes_a_node_stumble(talk: list[tuple[str, Any, float]], mode: Mode) -> None:
    now = 0.0
    job = terms("2:4", mode=mode.value)
    node = NodeMachine(events.NodeSetting(terms=job, offer=OWN, leads=False, discovery=events.Discovery.ADDRESS))
    node.start(now)
    link = {
        "closed": events.LinkClosed(),
        "silent": events.LinkSilent(),
        "refused": events.LinkFailed(refused=True, why="refused"),
        "no answer": events.LinkFailed(refused=False, why="no answer"),
    }

    def step(event: Any) -> None:
        for action in node.step(now, event):
            if isinstance(action, events.StartWorkers):
                contract_of(action.cluster, mode)
            elif isinstance(action, events.HoldPorts):
                step(events.PortsHeld(ports=OWN.ports))

    for _, said, passes_s in talk:
        if not node.linked:
            step(events.LinkUp(host="10.0.0.1"))
        if said == "exited":
            for key in node.worker_keys:
                generation = node.cluster.generation if node.cluster else 0
                step(events.WorkerExited(key=key, generation=generation, failure=FAILURE))
        elif isinstance(said, str):
            step(link[said])
        else:
            message = from_master(said)
            step(events.LinkSilent() if message is None else events.MessageFromMaster(message=message))
            if isinstance(message, protocol.Finish) and message.failure:
                assert words.describe(message.failure).isprintable()
        now += passes_s
        step(events.Tick())


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"rank": -7}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"rank": 2**40}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"host": "a; touch x #"}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"host": ""}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"host": "\x1b[31mred"}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"name": "b\nc"}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"name": "a"}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"ports": []}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"ports": [0, 1]}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"ports": [1] * 9999}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"trainers": 0}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"trainers": 10**6}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"offer": {"link_port": 65536}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"terms": {"heartbeat_timeout_s": float("nan")}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"terms": {"grace_s": -1}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"terms": {"most": 10**20}}),
        (protocol.Join(offer=offer("b"), terms=terms("2")), {"terms": {"least": 3}}),
        (protocol.Ready(generation=1), {"generation": -1}),
        (protocol.Leaving(signal=15), {"signal": 0}),
        (protocol.Failed(generation=1, failure=FAILURE), {"failure": {"exit_code": 256}}),
        (protocol.Failed(generation=1, failure=FAILURE), {"failure": {"at": float("inf")}}),
        (protocol.Failed(generation=1, failure=FAILURE), {"failure": {"key": "trainer.x"}}),
    ],
    ids=lambda item: json.dumps(item) if isinstance(item, dict) else "",
)
def test_what_a_node_must_not_say(message: Any, changes: dict[str, Any]) -> None:
    plain = encode_tagged(message)
    assert message_checks.from_node(plain, master="a") == message
    for name, change in changes.items():
        plain[name] = {**plain[name], **change} if isinstance(change, dict) else change
    with pytest.raises(Malformed):
        message_checks.from_node(plain, master="a")


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (protocol.Form(cluster=formation("ab")), {"generation": 0}),
        (protocol.Form(cluster=formation("ab")), {"coordinator": "z"}),
        (protocol.Form(cluster=formation("ab")), {"host": ["10.0.0.1", "$(id)"]}),
        (protocol.Form(cluster=formation("ab")), {"host": "a; touch x #"}),
        (protocol.Form(cluster=formation("ab")), {"home": [-1, 0]}),
        (protocol.Form(cluster=formation("ab")), {"name": ["b", "c"]}),
        (protocol.Form(cluster=formation("ab")), {"name": ["a", "a"]}),
        (protocol.Form(cluster=formation("ab")), {"trainers": 2}),
        (protocol.Form(cluster=formation("ab")), {"ports": [[1], [2]]}),
        (protocol.Form(cluster=formation("ab")), {"ports": [1, -65535]}),
        (protocol.Moved(host="a", port=1), {"port": 0}),
        (protocol.Moved(host="a", port=1), {"host": "a b"}),
        (protocol.Finish(exit_status=0), {"exit_status": 256}),
        (protocol.Finish(exit_status=0), {"exit_status": -1}),
        (protocol.Stop(generation=1, why="", grace_s=1), {"grace_s": float("inf")}),
        (protocol.RestartWorker(generation=1, key="trainer.0", restarts=1), {"restarts": -1}),
    ],
    ids=lambda item: json.dumps(item) if isinstance(item, dict) else "",
)
def test_what_a_master_must_not_say(message: Any, changes: dict[str, Any]) -> None:
    plain = encode_tagged(message)
    assert message_checks.from_master(plain, own=OWN) == message
    for name, change in changes.items():
        if name in plain:
            plain[name] = change
        else:
            part = plain["cluster"] if name in plain["cluster"] else plain["cluster"]["nodes"]
            part[name] = change
    with pytest.raises(Malformed):
        message_checks.from_master(plain, own=OWN)


def test_texts_of_others_are_shown_without_steering_a_terminal() -> None:
    said = {"is": "Waiting", "text": "\x1b]0;title\x07\x1b[31mred\x1b[0m\nLAUNCH INFO all is well \u202e"}
    assert message_checks.from_master(said, own=OWN) == protocol.Waiting(
        text="\\x1b]0;title\\x07red\\nLAUNCH INFO all is well \\u202e"
    )
    end = protocol.Failed(generation=1, failure=FAILURE)
    plain = encode_tagged(end)
    plain["failure"]["traceback"] = "one\n\ttwo\r\x1b[2J"
    heard = message_checks.from_node(plain)
    assert isinstance(heard, protocol.Failed)
    assert heard.failure.traceback == "one\n\ttwo\\x0d\\x1b[2J"


def test_a_formation_that_would_fill_the_memory_is_refused_before_it_is_made() -> None:
    plain = encode_tagged(protocol.Form(cluster=formation("ab")))
    count = 60_000
    names = [f"n{number}" for number in range(count)]
    plain["cluster"]["size"] = count
    plain["cluster"]["nodes"].update(
        name=names, home=0, host="h", ports=[1, -65_000], trainers=1, servers=0, heters=0, link_port=1
    )
    plain["cluster"]["nodes"].update(first_local_rank=0, local_size=0)
    with pytest.raises(Malformed, match="in all"):
        message_checks.from_master(plain, own=OWN)

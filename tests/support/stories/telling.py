"""What deciders do and say, each in one short line; and the terms of a job from the words of a script."""

from __future__ import annotations

from typing import Any

from tests.support import terms
from umiak.core.value import fields
from umiak.launch import events, protocol
from umiak.launch.reports.words import signal_name

TERM_WORDS: dict[str, tuple[str, type]] = {
    "max_restart": ("max_restart", int),
    "mode": ("mode", str),
    "elastic_level": ("elastic_level", int),
    "elastic_timeout": ("elastic_timeout_s", float),
    "join_timeout": ("join_timeout_s", float),
    "heartbeat_timeout": ("heartbeat_timeout_s", float),
    "grace": ("grace_s", float),
    "trainer_restart": ("trainer_restart", str),
}
FLAGS = ("sort_ip", "fails_at_start")


def take_terms(plain: tuple[str, ...], given: dict[str, str]) -> protocol.Terms:
    """The terms that a script's words describe; the words are taken out of ``given``."""
    wanted: dict[str, Any] = {name: kind(given.pop(word)) for word, (name, kind) in TERM_WORDS.items() if word in given}
    wanted.update({flag: True for flag in FLAGS if flag in plain})
    return terms(given.pop("nnodes", "2"), **wanted)


def message(said: object) -> str:  # noqa: C901 - one line for each kind of message
    """One message between launchers."""
    match said:
        case protocol.Waiting(text=text):
            return f"Waiting: {text}"
        case protocol.Form(cluster=cluster, basis=basis):
            restarts = f", restart {cluster.restarts}" if cluster.restarts else ""
            before = f", after {' and '.join(' '.join(line) for line in basis)}" if basis else ""
            return f"Form generation {cluster.generation}: {' '.join(cluster.names)}{restarts}{before}"
        case protocol.Go(generation=generation):
            return f"Go generation {generation}"
        case protocol.Stop(generation=generation, why=why, grace_s=grace_s, dump_stacks=dump):
            stacks = ", stacks first" if dump else ""
            return f"Stop generation {generation} within {grace_s:g} s{stacks}: {why}"
        case protocol.RestartWorker(generation=generation, key=key, restarts=restarts):
            return f"RestartWorker {key} of generation {generation}, restart {restarts}"
        case protocol.Standby(text=text):
            return f"Standby: {text}"
        case protocol.Finish(exit_status=status, words=words, code=code, hint=hint, at_once=at_once):
            return f"Finish with {status}{' at once' if at_once else ''}{_ending(words, code, hint)}"
        case protocol.Refuse(text=text, code=code, hint=hint, exit_status=status, gone=gone):
            return f"Refuse with {status}{', gone' if gone else ''}{_ending(text, code, hint)}"
        case protocol.Evict(text=text):
            return f"Evict: {text}"
        case protocol.Moved(host=host, port=port):
            return f"Moved to {host}:{port}"
        case protocol.Join(offer=offer):
            rank = "" if offer.rank is None else f" as rank {offer.rank}"
            return f"Join from {offer.host}{rank} with ports {' '.join(map(str, offer.ports))}"
        case protocol.HasLater(cluster=cluster):
            return f"HasLater generation {cluster.generation}"
        case protocol.Failed(generation=generation, failure=failure):
            return f"Failed {failure.key} of generation {generation}"
        case protocol.Stopped(generation=generation, ports=ports):
            return f"Stopped generation {generation}, next ports {' '.join(map(str, ports))}"
        case protocol.Leaving(signal=signal):
            return f"Leaving after {signal_name(signal)}"
        case (
            protocol.Ready(generation=generation)
            | protocol.Done(generation=generation)
            | protocol.Accepted(generation=generation)
            | protocol.Committed(generation=generation)
            | protocol.Seated(generation=generation)
        ):
            return f"{type(said).__name__} generation {generation}"
    raise TypeError(said)


def master_action(action: object) -> str:
    """One action of the master."""
    match action:
        case events.Send(names=names, message=said):
            return f"-> {' '.join(names)}: {message(said)}"
        case events.Drop(name=name):
            return f"drop {name}"
        case events.AnswerTakeover():
            return "answer: the job is led from here"
        case events.StandDown(text=text):
            return f"stand down: {text}"
    raise TypeError(action)


def node_action(action: object) -> str:
    """One action of a node."""
    match action:
        case events.MessageToMaster(message=said):
            return f"Tell {message(said)}"
        case events.ConsoleLine(text=text, level=level):
            return f"Say {level}: " + text.replace("\n", " / ")
        case events.Dial(host=host, port=port, patience_s=patience_s):
            return f"Dial {host}:{port} for {patience_s:g} s"
        case events.StartWorkers(seats=seats, restarts=restarts):
            again = f", restart {restarts}" if restarts else ""
            return f"StartWorkers {' '.join(f'{seat.key}=rank {seat.rank}' for seat in seats)}{again}"
        case events.SignalWorkers(number=number):
            return f"SignalWorkers {signal_name(number)}"
        case events.AwaitListening(keys=keys, within_s=within_s):
            return f"AwaitListening {' '.join(keys)} within {within_s:g} s"
        case events.Lead(previous=previous, basis=basis, dead=dead, silent=silent, reachable=reachable):
            after = f" after generation {previous.generation}" if previous else ""
            after += f" and {' and '.join(' '.join(line) for line in basis)}" if basis else ""
            groups = (("dead", dead), ("silent", silent), ("reachable", reachable))
            known = "".join(f", {word} {' '.join(names)}" for word, names in groups if names)
            return f"Lead{after}{known}"
        case events.CheckReachable(nodes=nodes):
            return f"CheckReachable {' '.join(f'{node.name} at {node.host}:{node.port}' for node in nodes)}"
        case events.Campaign(gone_host=host, gone_port=port):
            return f"Campaign, {host}:{port} is gone" if host else "Campaign"
        case events.Exit(status=status, words=words, code=code, hint=hint):
            return f"Exit {status}{_ending(words, code, hint)}"
    if not fields(action):
        return type(action).__name__
    raise TypeError(action)


def _ending(words: str, code: str, hint: str) -> str:
    """Why something ends: its words, its code, and what to do about it."""
    return (f": {words}" if words else "") + (f" [{code}]" if code else "") + (f" (hint: {hint})" if hint else "")

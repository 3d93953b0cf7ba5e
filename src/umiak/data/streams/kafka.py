"""Messages of a topic of Kafka. An adapter to ``confluent_kafka``, which is imported when a stream is used, and only then.

    topic = KafkaTopic(address("kafka://localhost:9092/clicks"), {"security.protocol": "SSL"})
    topic.bounds()                                  (PartitionBounds(partition=0, low=0, high=1800), ...)
    for messages in topic.read(Span(partition=0, begin=1200, end=1800)):
        messages                                    [(1200, b'{"user": 1}'), (1201, b'...'), ...]

Nothing is committed: where reading goes on is for the caller to know. A broker that does not answer is waited for; what is said of it meanwhile is ``idle``'s.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from umiak.core.problem import Problem, UmiakError
from umiak.data.streams.places import PartitionBounds, Span

if TYPE_CHECKING:
    from umiak.data.streams.places import StreamAddress

    Message = tuple[int, bytes | None]

CHUNK = 4096
"""So many messages are handed out at a time at most."""
POLL_S = 0.2
ANSWER_S = 30.0
"""An answer to a question is waited for as long; where messages are read, a broker has `GIVE_UP_S`."""
TELL_EVERY_S = 60.0
GIVE_UP_S = 600.0
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
INSTALL = "python -m pip install confluent-kafka"
_SILENT = logging.getLogger("umiak.kafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_SILENT.setLevel(logging.CRITICAL + 1)


class BrokerUnreachable(UmiakError):
    """No broker answers. It may do so later."""


class KafkaTopic:
    """One topic, for one reader."""

    def __init__(
        self,
        address: StreamAddress,
        settings: Mapping[str, str],
        *,
        idle: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``idle`` is called while a message is waited for; its text is for people, and mostly empty."""
        self.address = address
        self._settings = settings
        self._idle = idle
        self._clock = clock
        self._reader: Any = None
        self._asker: Any = None
        """Another client, for questions: to hear what goes wrong, one takes messages from it."""
        self._at: tuple[int, int] | None = None
        """Partition and offset that would come next without being asked for."""
        self._told = ""
        """What the client has said last of its troubles."""

    def bounds(self) -> tuple[PartitionBounds, ...]:
        """What there is of each partition. `BrokerUnreachable` if nobody answers."""
        found = []
        for partition in self._partitions():
            low, high = self._asked("get_watermark_offsets", _place(self.address.topic, partition))
            found.append(PartitionBounds(partition=partition, low=int(low), high=int(high)))
        return tuple(found)

    def offsets_at(self, time_ms: int) -> dict[int, int]:
        """Of each partition the first message of that time or later; partitions that have none are left out."""
        wanted = [_place(self.address.topic, partition, time_ms) for partition in self._partitions()]
        found = self._asked("offsets_for_times", wanted)
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def read(self, span: Span) -> Iterator[list[Message]]:
        """Its messages, some at a time, in order. UmiakError if they can't be had any more."""
        consumer = self._reader = self._reader or self._made()
        if self._at != (span.partition, span.begin):
            consumer.assign([_place(self.address.topic, span.partition, span.begin)])
        self._at = None
        at, heard, told = span.begin, self._clock(), self._clock()
        while at < span.end:
            found: list[Message] = []
            is_beyond = False
            for message in consumer.consume(min(CHUNK, span.end - at), POLL_S):
                behind = self._behind(message, span)
                if behind is None:
                    continue
                if behind > span.end or message.error() is not None:
                    # Offsets at the end of a span may have no message: those that were deleted, and marks of transactions.
                    at, is_beyond = max(at, min(behind, span.end)), is_beyond or behind > span.end
                    continue
                found.append((message.offset(), message.value()))
                at = behind
            now = self._clock()
            if found or at >= span.end:
                heard = now
            elif now - heard > GIVE_UP_S:
                raise self._unreachable(f"no message for {GIVE_UP_S:.0f} s, and {span.end - at} are still to come")
            is_late = now - max(heard, told) > TELL_EVERY_S
            told = now if is_late else told
            self._idle(self._waiting(span, at) if is_late else "")
            if found:
                yield found
                heard = self._clock()
            if at >= span.end and not is_beyond:
                self._at = (span.partition, span.end)

    def close(self) -> None:
        """Let the clients go."""
        for client in filter(None, (self._reader, self._asker)):
            client.close()
        self._reader = self._asker = self._at = None

    # ---- the client

    def _made(self) -> Any:
        try:
            import confluent_kafka
        except ImportError as missing:
            what = "streams of Kafka need confluent-kafka, which is not installed"
            raise UmiakError.of("UM-DATA-130", what, hint=INSTALL) from missing
        # What is read is thrown away where another partition comes next, so not too much of it.
        given = {"queued.min.messages": 2 * CHUNK, "queued.max.messages.kbytes": 32768, "client.id": "umiak"}
        # A partition that has come to its end would hold up the next one for half a second.
        given |= {"fetch.wait.max.ms": 20}
        given |= {"group.id": "umiak", **resolved(self._settings, os.environ)}
        given |= {"bootstrap.servers": self.address.brokers, "enable.partition.eof": True, "auto.offset.reset": "error"}
        given |= {"enable.auto.commit": False, "enable.auto.offset.store": False}
        try:
            return confluent_kafka.Consumer({**given, "error_cb": self._heard}, logger=_SILENT)
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            raise UmiakError.of("UM-DATA-134", f"settings of Kafka's client are refused: {_words(error)}") from None

    def _heard(self, error: Any) -> None:
        self._told = _words(error)

    def _partitions(self) -> list[int]:
        from confluent_kafka import KafkaError

        topic = self._asked("list_topics", self.address.topic).topics.get(self.address.topic)
        error = None if topic is None else topic.error
        if error is not None and error.code() == KafkaError.LEADER_NOT_AVAILABLE:
            raise self._unreachable(_words(error))
        if topic is None or error is not None or not topic.partitions:
            why = _words(error) if error is not None else None
            hint = "is it called so? Topics are not made here; `kafka-topics.sh --create` makes them"
            what = f"there is no topic {self.address.topic} at {self.address.brokers}"
            raise UmiakError.refused("UM-DATA-132", what, why=why, hint=hint)
        return sorted(topic.partitions)

    def _asked(self, question: str, about: Any) -> Any:
        client = self._asker = self._asker or self._made()
        from confluent_kafka import KafkaException

        try:
            return getattr(client, question)(about, timeout=ANSWER_S)
        except KafkaException as error:
            client.poll(0)  # what has gone wrong is heard here
            raise self._unreachable(_words(error)) from None

    def _unreachable(self, why: str) -> BrokerUnreachable:
        told = f"; {self._told}" if self._told and self._told not in why else ""
        hint = "is it the address that the broker advertises, and are security.protocol and the password right?"
        what = f"no broker answers for topic {self.address.topic}: {self.address.brokers}"
        return BrokerUnreachable.refused("UM-DATA-131", what, why=f"{why}{told}", hint=hint)

    def _waiting(self, span: Span, at: int) -> str:
        told = f": {self._told}" if self._told else ""
        return f"waits for message {at} of partition {span.partition} of topic {self.address.topic}{told}"

    def _behind(self, message: Any, span: Span) -> int | None:
        """Where reading goes on behind a message, or behind what is told in the place of one; None: it says nothing. UmiakError if there is no going on."""
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None:
            return int(message.offset()) + 1
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's own name for it
            return int(message.offset())
        gone = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)  # noqa: SLF001 - likewise
        if error.code() in gone:
            what = (
                f"topic {self.address.topic}: message {span.begin} of partition {span.partition} is not there any more"
            )
            hint = "let the topic keep its messages for longer (retention.ms)"
            raise UmiakError.refused("UM-DATA-133", what, why=_words(error), hint=hint)
        if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART):
            what = f"topic {self.address.topic} can't be read"
            raise UmiakError.refused("UM-DATA-132", what, why=_words(error))
        self._heard(error)
        return None


def resolved(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The same with what is in the variables that are named. UmiakError with all that are not set."""
    problems, found = [], {}
    for name, text in settings.items():
        variable = VARIABLE.fullmatch(text)
        found[name] = text if variable is None else environ.get(variable[1], "")
        if variable is not None and not found[name]:
            what = f"{name}: variable {variable[1]} is not set"
            problems.append(
                Problem(code="UM-DATA-134", what=what, hint=f"export {variable[1]}=..., where trainers start")
            )
    UmiakError.raise_any(problems)
    return found


def _place(topic: str, partition: int, offset: int | None = None) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, partition) if offset is None else TopicPartition(topic, partition, offset)


def _words(error: Any) -> str:
    """What an error of the library says; an exception has one in it."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    told = inner.str() if hasattr(inner, "str") else str(inner)
    return str(told)

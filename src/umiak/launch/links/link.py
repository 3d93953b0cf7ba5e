"""Links between launchers: messages, heartbeats, and one word at the end. An adapter.

A link carries ``{"m": message}`` and a beat a second in both directions. Beats are numbered, and each says which beat
of the other side was heard last: ``{"b": 7, "heard": 6}``. So each side knows not only that it hears the other one, but
that it is heard: in a network that carries packets one way only, TCP still delivers a few. A link tells its owner one
of two things about its end: *closed*, the other process is gone, or *silent*, nothing was heard, or confirmed, for the
heartbeat timeout. A close after a long silence counts as silence: what closed the connection may have been this
machine's own network stack. So does a close after this launcher itself stood still, and one that the other side
announces: a launcher that lets go of a link and lives on says ``{"left": 1}`` first. How a link comes about is in
`handshake`.
"""

from __future__ import annotations

from collections import deque

from umiak.adapters.frames import frame, ignore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from umiak.adapters.frames import FramedSocket
    from umiak.adapters.loop import Loop
    from umiak.core.json_types import JsonObject

BEAT_EVERY_S = 1.0
BEATS_KEPT = 16
HOLD = frame({"b": 0})
"""Said to a caller who has to wait, before there is a link."""
LEFT = frame({"left": 1})


class Link:
    """An established connection to another launcher. Messages, beats, and one word at its end."""

    def __init__(self, framed: FramedSocket, heartbeats: Heartbeats, *, clock_offset_s: float = 0.0) -> None:
        self._framed = framed
        self._heartbeats = heartbeats
        self.clock_offset_s = clock_offset_s
        """What to add to this machine's wall clock to get the master's."""
        self.on_message: Callable[[Any], None] = ignore
        self.on_closed: Callable[[], None] = _nothing
        self.on_silent: Callable[[], None] = _nothing
        self.on_trusted: Callable[[], None] = _nothing
        self._silent_said = False
        self._their_beat = 0
        self._confirmed_at = heartbeats.now()  # when this side sent the last beat of which it knows that it was heard
        framed.on_frame = self._frame
        framed.on_end = self._ended
        heartbeats.links.add(self)

    @property
    def local_host(self) -> str:
        return self._framed.local_host

    @property
    def peer_host(self) -> str:
        return self._framed.peer_host

    @property
    def has_unsent(self) -> bool:
        return self._framed.has_unsent and not self._framed.ended

    @property
    def is_open(self) -> bool:
        return not self._framed.ended

    def send(self, data: bytes) -> None:
        """Send a frame made by ``message_frame``."""
        self._framed.send(data)

    def trust(self) -> None:
        """The other side has said who it is, and that makes sense: it is no stranger any more."""
        self.on_trusted()

    def leave_within(self, seconds: float) -> None:
        """What had to be said was said. The other side has this long to read it and to close; then it is left here."""
        self._heartbeats.after(seconds, self.leave)

    def finish_sending(self) -> None:
        self._framed.finish_sending()

    def close(self) -> None:
        self._heartbeats.links.discard(self)
        self._framed.close()

    def leave(self) -> None:
        """Let go of the link while this launcher lives on: the other side must not take that for its death.

        Both sides may have been cut off from each other and the cut may have healed just now, so it is not enough that
        this side was not heard for long: what it sent into the cut arrives with the end of the connection.
        """
        self._heartbeats.links.discard(self)
        self._silent_said = True
        self.on_message = ignore
        self._framed.send(LEFT)
        if not self._framed.has_unsent:
            self._framed.finish_sending()
        # Closing with something unread would take back what was sent.
        self._heartbeats.after_timeout(self._framed.close)

    def beat(self) -> None:
        """Show that we live."""
        self._framed.send(frame({"b": self._heartbeats.beats, "heard": self._their_beat}))

    @property
    def last_alive(self) -> float:
        """Until when both directions worked, as far as is known here. A confirmation may be one beat old."""
        return min(self._framed.last_heard, self._confirmed_at + self._heartbeats.every_s)

    @property
    def silent_s(self) -> float:
        return max(0.0, self._heartbeats.now() - self.last_alive)

    def fell_silent(self) -> None:
        """The other side was not heard for too long."""
        if not self._silent_said:
            self._silent_said = True
            self.on_silent()

    def _frame(self, content: JsonObject) -> None:
        if "m" in content:
            self.on_message(content["m"])
        elif "b" in content:
            beat, heard = content["b"], content.get("heard")
            if type(beat) is int and type(heard) is int:
                self._their_beat = beat
                self._confirmed_at = max(self._confirmed_at, self._heartbeats.sent_at(heard))
        elif "left" in content:
            self._heartbeats.links.discard(self)
            self.fell_silent()

    def _ended(self, _reason: str) -> None:
        self._heartbeats.links.discard(self)
        if self._silent_said:
            return
        # What was read just now may have been sent long ago, so that only what was confirmed counts.
        if self._heartbeats.is_in_doubt or self.silent_s > self._heartbeats.timeout_s / 2:
            self._silent_said = True
            self.on_silent()
        else:
            self.on_closed()


class Heartbeats:
    """Beats for all links of this launcher, with one timer."""

    def __init__(self, loop: Loop, timeout_s: float) -> None:
        self._loop = loop
        self.timeout_s = timeout_s
        self.links: set[Link] = set()
        self.every_s = min(BEAT_EVERY_S, timeout_s / 5)
        self.beats = 0
        self._sent: deque[float] = deque(maxlen=BEATS_KEPT)  # when the last beats were sent, the newest last
        self._in_doubt_until = 0.0
        self._next_beat = loop.now() + self.every_s
        loop.on_nap = self._napped
        loop.at(self._next_beat, self._beat)

    def now(self) -> float:
        return self._loop.now()

    def sent_at(self, beat: int) -> float:
        """When the beat of this number was sent; long ago if that is not known any more."""
        age = self.beats - beat
        return self._sent[-1 - age] if 0 <= age < len(self._sent) else 0.0

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._loop.after(seconds, call)

    @property
    def is_in_doubt(self) -> bool:
        """Whether this launcher stood still so long a moment ago that the others may have given it up.

        Then their hanging up is no sign that they died.
        """
        return self.now() < self._in_doubt_until

    def after_timeout(self, call: Callable[[], None]) -> None:
        """Call this after a heartbeat timeout."""
        self._loop.after(self.timeout_s, call)

    def _napped(self, seconds: float) -> None:
        if seconds > self.timeout_s / 2:
            self._in_doubt_until = self.now() + self.timeout_s

    def _beat(self) -> None:
        now = self._loop.now()
        # Punctual also when this beat was late: the others' patience counts on it.
        self._next_beat = max(self._next_beat + self.every_s, now)
        self._loop.at(self._next_beat, self._beat)
        self.beats += 1
        self._sent.append(now)
        for link in tuple(self.links):
            link.beat()
        self._listen()

    def _listen(self) -> None:
        """Notice silence when it is due, not only at the next beat: a side that is cut off must stop in time."""
        due = self._next_beat
        for link in tuple(self.links):
            silent_at = link.last_alive + self.timeout_s
            if silent_at <= self._loop.now():
                link.fell_silent()
            else:
                due = min(due, silent_at)
        if due < self._next_beat:
            self._loop.at(due, self._listen)


def message_frame(message: object) -> bytes:
    """The frame for one message; made once when it goes to many."""
    return frame({"m": message})


def _nothing() -> None:
    pass

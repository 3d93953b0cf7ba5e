"""What one launcher calls another one for: values, and their text in the handshake.

    join                                             to take part in the job
    callback KEY                                     is this the launcher that has just joined?
    are-you NAME                                     is the launcher of this name there?
    takeover HOST PORT GENERATION LINEAGE HOW        the job is led from here; HOW is formed, ready or gathering

`text` writes a purpose and `read` reads it back; what a stranger made up is None.
"""

from __future__ import annotations

from umiak.core.value import value


@value
class JoinJob:
    """To take part in the job."""


@value
class Callback:
    """The master calls a node back that has just joined, at the address that it offered."""

    key: str


@value
class AreYou:
    """Is the launcher of this name there?"""

    name: str


@value
class Takeover:
    """The caller leads the job, after this generation."""

    host: str
    port: int
    generation: int
    lineage: str
    formed: bool
    """It has formed that generation itself, with a majority."""
    ready: bool = False
    """It has a majority for the next one."""


Purpose = JoinJob | Callback | AreYou | Takeover

WORD_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:%'-")


def text(purpose: Purpose) -> str:
    """The words of the handshake for it."""
    match purpose:
        case JoinJob():
            return "join"
        case Callback(key=key):
            return f"callback {key}"
        case AreYou(name=name):
            return f"are-you {name}"
        case Takeover():
            how = "formed" if purpose.formed else "ready" if purpose.ready else "gathering"
            lineage = purpose.lineage or "none"
            return f"takeover {purpose.host} {purpose.port} {purpose.generation} {lineage} {how}"


def read(words: str) -> Purpose | None:
    """The purpose that these words tell; None if they tell none."""
    kind, *rest = words.split(" ")
    if not all(0 < len(word) < 256 and WORD_LETTERS.issuperset(word) for word in rest):
        return None
    match kind, rest:
        case "join", []:
            return JoinJob()
        case "callback", [key]:
            return Callback(key=key)
        case "are-you", [name]:
            return AreYou(name=name)
        case "takeover", [host, port, generation, lineage, ("formed" | "ready" | "gathering") as how]:
            numbers = port, generation
            if all(number.isdecimal() and len(number) < 10 for number in numbers) and 0 < int(port) < 65536:
                return Takeover(
                    host=host,
                    port=int(port),
                    generation=int(generation),
                    lineage=lineage,
                    formed=how == "formed",
                    ready=how == "ready",
                )
    return None

"""Whose output is on the console: ``--tee``, and torchrun's ``--redirects``, ``--tee`` and ``--local-ranks-filter``.
A decider.

torchrun shows everybody's output unless it is redirected to a file; what is redirected can be shown all the same (tee),
and a filter hides what is left. umiak keeps a file for every worker anyway, with stdout and stderr in one, so only the
question of what is shown remains.
"""

from __future__ import annotations

from umiak.launch.options import Tee

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.flags import FlagFindings, Parsed

STREAMS = {"0": "no stream", "1": "stdout", "2": "stderr", "3": "both streams"}
OWN_WORDS = tuple(tee.value for tee in Tee)


def is_torchruns(text: str) -> bool:
    """Whether a value of ``--tee`` is torchrun's and not one of ours."""
    return text.strip().lower() not in OWN_WORDS and _streams(text) is not None


def shown(parsed: Parsed, findings: FlagFindings, *, torchruns: bool) -> tuple[Tee, tuple[int, ...]]:
    """What is shown, and the local ranks of which the opposite is true. Problems and notes go to the findings."""
    tee, redirects, ranks = parsed["tee"], parsed["redirects"], _ranks(parsed, findings)
    word = parsed.text("tee").lower() if tee.said else ""
    if word == Tee.FIRST.value and torchruns and tee.said_as != "UMIAK_TEE":
        findings.note(f"{tee.spoken} shows the first worker's output; torchrun's 0 is --tee all here")
    kept = _read(parsed, "redirects", findings) if redirects.said else {}
    if word in OWN_WORDS or not (tee.said or redirects.said):
        fallback = Tee.ALL if torchruns else Tee.FIRST
        basis = Tee(word) if word in OWN_WORDS else Tee.NONE if redirects.said else fallback
        return _filtered(basis, (), ranks)
    teed = _read(parsed, "tee", findings) if tee.said else {}
    if kept is None or teed is None:
        return Tee.FIRST, ()
    for setting, streams in ((redirects, kept), (tee, teed)):
        if setting.said and set(streams.values()) & {"1", "2"}:
            findings.note(f"{setting.spoken} holds for both streams: stdout and stderr of a worker are one here")
    basis = Tee.ALL if _is_shown(None, kept, teed) else Tee.NONE
    named = sorted({rank for rank in (*kept, *teed) if rank is not None})
    opposite = tuple(rank for rank in named if _is_shown(rank, kept, teed) is not (basis is Tee.ALL))
    return _filtered(basis, opposite, ranks)


def _is_shown(rank: int | None, kept: dict[int | None, str], teed: dict[int | None, str]) -> bool:
    """``None`` stands for every rank that is not named."""
    return _of(kept, rank) == "0" or _of(teed, rank) != "0"


def _of(streams: dict[int | None, str], rank: int | None) -> str:
    return streams.get(rank, streams.get(None, "0"))


def _filtered(tee: Tee, opposite: tuple[int, ...], ranks: tuple[int, ...]) -> tuple[Tee, tuple[int, ...]]:
    """With ``--local-ranks-filter``: nobody is shown but those of its ranks that would be shown without it."""
    if not ranks:
        return tee, opposite
    first = tee is Tee.FIRST
    return Tee.NONE, tuple(
        rank for rank in ranks if ((tee is Tee.ALL) or (first and rank == 0)) is not (rank in opposite)
    )


def _read(parsed: Parsed, name: str, findings: FlagFindings) -> dict[int | None, str] | None:
    setting = parsed[name]
    streams = _streams(parsed.text(name))
    if streams is None:
        ours = "all, none, or " if name == "tee" else ""
        findings.problem(
            "UM-LAUNCH-168",
            f"unknown value: {setting.spoken}",
            hint=f"write {ours}0, 1, 2 or 3, or such a number for each local rank: 0:3,1:0",
        )
    return streams


def _streams(text: str) -> dict[int | None, str] | None:
    """``3`` for all ranks, or ``0:3,1:0``; ``None`` if it is neither."""
    text = text.strip()
    if text in STREAMS:
        return {None: text}
    streams: dict[int | None, str] = {}
    for item in text.split(","):
        rank, _, stream = item.partition(":")
        if not (rank.isascii() and rank.isdecimal()) or stream not in STREAMS:
            return None
        streams[int(rank)] = stream
    return streams


def _ranks(parsed: Parsed, findings: FlagFindings) -> tuple[int, ...]:
    words = (
        [word.strip() for word in parsed.text("local_ranks_filter").split(",")]
        if parsed.said("local_ranks_filter")
        else []
    )
    if not all(word.isascii() and word.isdecimal() for word in words):
        setting = parsed["local_ranks_filter"]
        findings.problem(
            "UM-LAUNCH-168",
            f"expected local ranks such as 0,1, got {setting.spoken}",
            hint="write --local_ranks_filter 0,1",
        )
        return ()
    return tuple(sorted({int(word) for word in words}))

"""The word that was probably meant: for hints about flags, commands, keys and names. A decider.

nearest("epoch", ["epochs", "phases"])   -> "epochs"
nearest("xyz", ["epochs", "phases"])     -> None
few("save_dir", ["save_path", "phases"]) -> ("save_path",)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


LEAST_SURE = 4
"""A slip makes one short word out of another too easily."""
LIKE = 0.5
"""Of a word's letters, so many may be slips in one that is still like it."""
LONGEST = 100
"""A longer word is no slip of anybody's, and comparing it would take its time."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant: one that begins so, or one that is a few slips away."""
    known = tuple(known)
    if len(word) > LONGEST:
        return None
    longer = sorted((len(one), one) for one in known if len(word) > 1 and one.startswith(word))
    if longer:
        return longer[0][1]
    distance, best = min(((_slips(word, one), one) for one in known), default=(len(word), ""))
    return best if distance < len(word) and distance <= max(1, len(word) // 3) else None


def few(word: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """The known words that are like it, the likest first:
    a few slips away, or with a part in common, as ``save_path`` and ``save_step_path``.
    """
    if len(word) > LONGEST:
        return ()
    word = word.lower()
    parts = {*word.split("_")}
    words = []
    for one in known:
        lower = one.lower()
        distance = _slips(word, lower) / max(len(word), len(lower), 1)
        shared = len(parts & {*lower.split("_")} - {""})
        if shared or distance <= LIKE:
            words.append((distance - shared / len(parts), one))
    return tuple([one for _, one in sorted(words)[:most]])


def surely(word: str, known: Iterable[str]) -> str | None:
    """The known word that was surely meant: one slip away, or the same but for case, hyphens and underscores."""
    known = tuple(known)
    plain = _plain(word)
    for one in known:
        if _plain(one) == plain:
            return one
    if not LEAST_SURE <= len(word) <= LONGEST:
        return None
    return next((one for one in known if abs(len(one) - len(word)) <= 1 and _slips(word.lower(), one) <= 1), None)


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def _slips(one: str, other: str) -> int:
    """How many letters must be added, dropped, changed
    or swapped with a neighbour to get from one word to the other.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        before, above, row = row, before, [i]
        for j, wanted in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]

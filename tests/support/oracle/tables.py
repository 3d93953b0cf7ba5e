"""Tables of a parameter server, in numpy and dictionaries: slow, short, and exact. A decider.

They are a specification: whatever the native core's tables do, these do, bit for bit, and tests compare the two.
A table is described by the same plain data that is sent to servers as JSON:

>>> table = SparseTable({"dim": 2, "seed": 1, "init": {"kind": "constant", "value": 0.5},
...                      "optimizer": {"rule": "sgd", "learning_rate": 0.5}})
>>> table.push([7], np.array([[1.0, 0.0]], np.float32))
>>> table.pull([7, 8]).tolist()
[[0.0, 0.5], [0.5, 0.5]]

It knows nothing of servers, files or threads: rows start the same, and change the same, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tests.support.oracle import rules
from tests.support.oracle.rules import Floats, Rule, Settings
from umiak.ps.gradients import Missing, mark_of

PENDING = 1
WIDE = 2
NEW = 4
COUNT_SHIFT = 2

# Columns of an accessor's row, before the state of embed_w.
SLOT, UNSEEN_DAYS, DELTA_SCORE, SHOW, CLICK, EMBED = range(6)

_Step = tuple[np.float32, np.float32]
_Run = tuple[int, int, _Step | None]
"""Elements that follow each other and are treated alike in a push: from, up to, and the numbers of it; None: they stay as they are."""
SavedRows = dict[int, tuple[int, Floats]]
"""By key: flags, and all columns of the row."""


class _Row:
    """A row: its first part, and what may follow later if the table has an accessor."""

    def __init__(self, values: Floats, state: Floats) -> None:
        self.values = values
        self.state = state
        self.wide: tuple[Floats, Floats] | None = None
        self.has_begun = False
        """Whether it moves in every push, where the table says so: it was pushed to or set."""


class SparseTable:
    """A row per key, made when the key first comes, changed by gradients."""

    def __init__(self, spec: Settings) -> None:
        self.spec = spec
        self.dim: int = spec["dim"]
        self.clip: Settings = spec.get("clip") or {}
        self.decay: Settings = spec.get("decay") or {}
        self.entry: Settings = spec.get("entry") or {"by": "always"}
        self.accessor: Settings | None = spec.get("accessor")
        self.rule = Rule(spec["optimizer"])
        self.embed_rule = Rule(self.accessor["embed_optimizer"]) if self.accessor else None
        self.rows: dict[int, _Row] = {}
        self.pending: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def moves(self) -> bool:
        """Whether a push moves rows that it does not bring."""
        is_pulled = any(self.decay.values()) or self.clip.get("weight") is not None
        return bool(self.spec.get("every_row")) and (is_pulled or self.rule.name in ("momentum", "adam", "rmsprop"))

    def change_settings(self, spec: Settings) -> None:
        """Goes on under other settings of the same layout."""
        moved, self.spec = self.moves, spec
        self.clip, self.decay = spec.get("clip") or {}, spec.get("decay") or {}
        if self.moves and not moved:
            for row in self.rows.values():
                row.has_begun = True

    @property
    def pull_width(self) -> int:
        """Columns of a pulled row."""
        return self.dim + (3 if self.accessor else 0)

    def set_learning_rate(self, rate: float) -> None:
        """Sets the rate of all rules of the table."""
        self.rule.learning_rate = np.float32(rate)
        if self.embed_rule:
            self.embed_rule.learning_rate = np.float32(rate)

    # Reading.

    def pull(self, keys: Iterable[int], create: bool = True, *, absent: str = "initial") -> Floats:
        """Rows of keys. A missing one is made, or reads as it would be made; as zeros if its key is not admitted.

        ``absent="zeros"``: one that is missing and not made reads as zeros in any case.
        """
        rows = [self._pull_one(int(key), create, absent) for key in keys]
        return np.array(rows, np.float32).reshape(-1, self.pull_width)

    def _pull_one(self, key: int, create: bool, absent: str) -> Floats:
        row = self.rows.get(key)
        if row is None and (not self._admits(key) or (not create and absent == "zeros")):
            return np.zeros(self.pull_width, np.float32)
        if row is None:
            row = self._first(key)
            if create:
                self.rows[key] = row
        if not self.accessor:
            return row.values
        wide = row.wide[0] if row.wide else np.zeros(self.dim, np.float32)
        return np.concatenate([row.values[SHOW : EMBED + 1], wide])

    def _admits(self, key: int) -> bool:
        """Whether a key gets a row as soon as it is asked for."""
        match self.entry["by"]:
            case "always":
                return True
            case "probability":
                seed = rules.mix(~self.spec["seed"] & (2**64 - 1))
                word = rules.draw(rules.mix(key ^ seed), 0)
                return bool(rules.unit(word) < np.float32(self.entry["probability"]))
            case _:
                return False

    def _first(self, key: int) -> _Row:
        if self.accessor and self.embed_rule:
            head = np.zeros(EMBED + 1, np.float32)
            if not self.accessor["zero_init"]:
                # Another seed than the wide part's, or both would begin with the same numbers.
                seed = rules.mix(self.spec["seed"])
                head[EMBED:] = rules.first_row(self.accessor["embed_init"], seed, key, 1)
            return _Row(head, self.embed_rule.first_state(1))
        return _Row(*self._first_wide(key))

    def _first_wide(self, key: int) -> tuple[Floats, Floats]:
        values = rules.first_row(self.spec["init"], self.spec["seed"], key, self.dim)
        return values, self.rule.first_state(self.dim)

    # Changing.

    def push(self, keys: Iterable[int], rows: Floats, draw: int = 0) -> None:
        """One optimizer step; an empty push is one too. Each key should come once."""
        step = self.rule.begin()
        embed_step = self.embed_rule.begin() if self.embed_rule else step
        keys = [*map(int, keys)]
        if self.moves:
            # Each in its turn: no row waits for anything.
            for key, other in self.rows.items():
                if key not in keys and other.has_begun:
                    zeros = np.zeros(self.dim, np.float32)
                    self.rule.apply(self.rule.idle(step), self.clip, other.values, other.state, zeros, self.decay)
        for key, pushed in zip(keys, rows, strict=True):
            row = self.rows.get(key)
            if row is None:
                if not self._admits_push(key, pushed, draw):
                    continue
                row = self.rows[key] = self._first(key)
            row.has_begun = True
            if self.accessor:
                self._push_counted(key, row, pushed, step, embed_step)
            else:
                self.rule.apply(step, self.clip, row.values, row.state, pushed, self.decay)

    def _admits_push(self, key: int, pushed: Floats, draw: int) -> bool:
        match self.entry["by"]:
            case "count":
                self.pending[key] = self.pending.get(key, 0) + 1
                if self.pending[key] < self.entry["count"]:
                    return False
                del self.pending[key]
                return True
            case "score":
                score = self._score(pushed[1], pushed[2])
                chance = rules.unit(rules.mix(key ^ rules.mix(draw)))
                return bool(score > 0 and (score >= 1 or chance < score))
            case _:
                return self._admits(key)

    def _push_counted(self, key: int, row: _Row, pushed: Floats, step: _Step, embed_step: _Step) -> None:
        """A push to a row with an accessor: slot, show, click, embed_w's gradient, the wide part's gradients."""
        assert self.accessor
        assert self.embed_rule
        show, click, head = pushed[1], pushed[2], row.values
        head[SLOT] = pushed[0]
        head[SHOW] += show
        head[CLICK] += click
        head[DELTA_SCORE] += self._score(show, click)
        head[UNSEEN_DAYS] = 0.0
        one = np.float32(1.0)
        scale = show if self.accessor["show_scale"] and show > 0 else one
        gradient = pushed[3:4] / (scale if self.embed_rule.scales_by_show else one)
        self.embed_rule.apply(embed_step, self.clip, head[EMBED:], row.state, gradient)
        if row.wide:
            gradient = pushed[4:] / (scale if self.rule.scales_by_show else one)
            self.rule.apply(step, self.clip, *row.wide, gradient)
        elif self._score(head[SHOW], head[CLICK]) >= np.float32(self.accessor["embedx_threshold"]):
            # The push that earns a row its wide part does not train it yet.
            row.wide = self._first_wide(key)

    def _score(self, show: np.float32, click: np.float32) -> np.float32:
        assert self.accessor
        nonclk, clk = np.float32(self.accessor["nonclk_coeff"]), np.float32(self.accessor["click_coeff"])
        score: np.float32 = (show - click) * nonclk + click * clk
        return score

    def push_summed(self, parts: Sequence[tuple[Iterable[int], Floats]], draw: int = 0) -> None:
        """One optimizer step with the sum of these pushes. Of an accessor's columns, the last slot counts."""
        sums: dict[int, Floats] = {}
        for keys, rows in parts:
            for key, row in zip(map(int, keys), rows, strict=True):
                sums[key] = sums[key] + row if key in sums else row.copy()
                if self.accessor:
                    sums[key][SLOT] = row[SLOT]
        width = self.dim + (4 if self.accessor else 0)
        self.push(sums, np.array(list(sums.values()), np.float32).reshape(len(sums), width), draw)

    def set(self, keys: Iterable[int], rows: Floats) -> None:
        """Overwrites values; state stays."""
        for key, row in zip(map(int, keys), rows, strict=True):
            self._made(key).values[:] = row

    def add(self, keys: Iterable[int], rows: Floats) -> None:
        """Adds to values; state stays."""
        for key, row in zip(map(int, keys), rows, strict=True):
            self._made(key).values[:] += row

    def _made(self, key: int) -> _Row:
        assert not self.accessor, "a table with an accessor is only changed by pushes"
        self.pending.pop(key, None)
        row = self.rows.setdefault(key, self._first(key))
        row.has_begun = True
        return row

    # Fading, saving, loading.

    def shrink(self) -> int:
        """A day passes: shows and clicks fade, and rows that are not worth keeping go. Returns how many."""
        if not self.accessor:
            return 0
        gone = []
        for key, row in self.rows.items():
            row.values[[SHOW, CLICK]] *= np.float32(self.accessor["show_click_decay_rate"])
            worthless = self._score(row.values[SHOW], row.values[CLICK]) < np.float32(self.accessor["delete_threshold"])
            if worthless or row.values[UNSEEN_DAYS] > np.float32(self.accessor["delete_after_unseen_days"]):
                gone.append(key)
        for key in gone:
            del self.rows[key]
        return len(gone)

    def save(self, mode: str = "all") -> SavedRows:
        """The rows that a save in this mode takes, and what it does to them."""
        saved = {key: self._saved(row) for key, row in self.rows.items() if self._is_saved(row, mode)}
        if not self.accessor or mode in ("all", "full"):
            width = self.saved_width
            for key, count in self.pending.items():
                saved[key] = (PENDING | count << COUNT_SHIFT, np.zeros(width, np.float32))
        if self.accessor:
            for key, row in self.rows.items():
                if mode == "full":
                    row.values[UNSEEN_DAYS] += np.float32(1.0)
                if mode in ("delta", "base") and key in saved:
                    row.values[DELTA_SCORE] = 0.0
        return saved

    @property
    def saved_width(self) -> int:
        """Columns of a saved row."""
        wide = self.dim + self.rule.state_width(self.dim)
        return wide + (EMBED + 1 + self.embed_rule.state_width(1) if self.embed_rule else 0)

    def _is_saved(self, row: _Row, mode: str) -> bool:
        if not self.accessor or mode in ("all", "full"):
            return True
        least = np.float32(self.accessor["delta_threshold"] if mode == "delta" else 0.0)
        return bool(
            self._score(row.values[SHOW], row.values[CLICK]) >= np.float32(self.accessor["base_threshold"])
            and row.values[DELTA_SCORE] >= least
            and row.values[UNSEEN_DAYS] <= np.float32(self.accessor["delta_keep_days"])
        )

    def _saved(self, row: _Row) -> tuple[int, Floats]:
        columns = np.zeros(self.saved_width, np.float32)
        parts = [row.values, row.state, *(row.wide or ())]
        filled = np.concatenate(parts)
        columns[: len(filled)] = filled
        is_new = self.moves and not row.has_begun
        return (WIDE if row.wide else NEW if is_new else 0), columns

    def load(self, saved: SavedRows) -> None:
        """Takes saved rows in, over whatever these keys have."""
        for key, (flags, columns) in saved.items():
            if flags & PENDING:
                if key not in self.rows:
                    self.pending[key] = flags >> COUNT_SHIFT
                continue
            self.pending.pop(key, None)
            row = self.rows[key] = self._first(key)
            row.has_begun = not flags & NEW
            if flags & WIDE:
                row.wide = self._first_wide(key)
            start = 0
            for part in (row.values, row.state, *(row.wide or ())):
                part[:] = columns[start : start + len(part)]
                start += len(part)


class DenseTable:
    """Named arrays laid end to end, cut into one chunk per virtual shard. A chunk is to its rule what a row is.

    An array without a gradient in a push (`umiak.ps.gradients`) stays as it is, and counts its pushes itself from then on. What lies in one
    chunk and is treated alike is one row.
    """

    def __init__(self, spec: Settings, shards: int = 256) -> None:
        self.clip: Settings = spec.get("clip") or {}
        self.decay: Settings = spec.get("decay") or {}
        self.rule = Rule(spec["optimizer"])
        sizes = [int(np.prod(array["shape"], dtype=np.int64)) for array in spec["arrays"]]
        elements = sum(sizes)
        ends = np.cumsum(sizes).tolist()
        self._places = [(end - size, end) for end, size in zip(ends, sizes, strict=True) if size]
        self._own: list[tuple[bool, list[float]] | None] = [None] * len(self._places)
        """Whether it has learned, and its powers, of an array that counts for itself."""
        self._has_learned = False
        size = -(-elements // shards)
        size = -(-size // 16) * 16
        self.starts = list(range(0, elements, size))
        self.values = np.zeros(elements, np.float32)
        self.chunks = [self.values[start : start + size] for start in self.starts]
        self.states = [self.rule.first_state(len(chunk)) for chunk in self.chunks]

    def set(self, values: Floats) -> None:
        """Overwrites the values; state stays."""
        self.values[:] = values

    def push(self, gradients: Floats) -> None:
        """One optimizer step."""
        self.push_summed([gradients])

    def push_summed(self, parts: Sequence[Floats]) -> None:
        """One optimizer step with the sum of these gradients, added up in this order."""
        runs = self._begin(parts)
        for start, chunk, state in zip(self.starts, self.chunks, self.states, strict=True):
            end = start + len(chunk)
            here = [(max(first, start), min(behind, end), step) for first, behind, step in runs]
            self._apply([each for each in here if each[0] < each[1]], start, chunk, state, parts)

    def _begin(self, parts: Sequence[Floats]) -> list[_Run]:
        before = self._has_learned, [*self.rule.powers]
        common = self.rule.begin()
        runs: list[_Run] = []
        was_marked = True
        for array, (start, end) in enumerate(self._places):
            marks = [mark_of(part[start:end]) for part in parts]
            is_marked = any(marks)
            own = self._own[array]
            has_learned = (own or before)[0]
            step: _Step | None = None
            if None in marks or (has_learned and Missing.CLEARED in marks):
                step = common
                if own is not None:
                    self._own[array] = True, own[1]
                    step = self.rule.begin(own[1])
            elif own is None:
                self._own[array] = before[0], [*before[1]]
            if not is_marked and not was_marked and runs[-1][2] == step:
                runs[-1] = runs[-1][0], end, step
            else:
                runs.append((start, end, step))
            was_marked = is_marked
        self._has_learned = True
        return runs

    def _apply(self, runs: list[_Run], at: int, chunk: Floats, state: Floats, parts: Sequence[Floats]) -> None:
        learned = [(first, behind, step) for first, behind, step in runs if step is not None]
        if not learned:
            return
        if len(runs) == 1 or self.rule.has_row_state:
            gradient = np.zeros(len(chunk), np.float32)
            for first, behind, _ in learned:
                gradient[first - at : behind - at] = _sum(parts, first, behind)
            before = chunk.copy()
            self.rule.apply(learned[-1][2], self.clip, chunk, state, gradient, self.decay)
            for first, behind, step in runs:
                if step is None:
                    chunk[first - at : behind - at] = before[first - at : behind - at]
            return
        blocks = state.reshape(-1, len(chunk))
        for first, behind, step in learned:
            place = slice(first - at, behind - at)
            own = blocks[:, place].reshape(-1)
            self.rule.apply(step, self.clip, chunk[place], own, _sum(parts, first, behind), self.decay)
            blocks[:, place] = own.reshape(len(blocks), behind - first)


def _sum(parts: Sequence[Floats], first: int, behind: int) -> Floats:
    there = [part[first:behind] for part in parts if mark_of(part[first:behind]) is None]
    total = there[0].copy() if there else np.zeros(behind - first, np.float32)
    for part in there[1:]:
        total += part
    return total

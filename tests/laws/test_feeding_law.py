"""Whatever happens to trainers among which parts are dealt, stops, resumes with more or fewer of them, every sample is given out exactly once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from umiak.core.decode import decode, encode
from umiak.train.reading.work_queue import WorkQueue


@given(
    sizes=st.lists(st.integers(0, 6), max_size=12),
    runs=st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 3), max_size=40)), max_size=5),
)
def test_every_sample_is_given_out_once(sizes: list[int], runs: list[tuple[int, list[int]]]) -> None:
    given_out = [0] * len(sizes)
    queue = WorkQueue()
    for world, turns in [*runs, (2, [0, 1] * 200)]:
        drawn = 0
        hands: list[dict[str, Any]] = [{"part": None, "position": None, "drawn": 0} for _ in range(world)]
        for step in turns:
            hand = hands[step % world]
            if hand["part"] is None:
                part, position = queue.part(drawn)
                drawn += 1
                hand.update(drawn=drawn, part=part if part < len(sizes) else None, position=position or "0")
                continue
            at = int(hand["position"])
            if at == sizes[hand["part"]]:
                hand.update(part=None, position=None)
                continue
            given_out[hand["part"]] += 1
            hand["position"] = str(at + 1)
        # What is kept between runs goes through a file.
        queue = decode(WorkQueue, json.loads(json.dumps(encode(queue.after(hands)))))
    assert given_out == sizes
    assert queue.leftovers == ()

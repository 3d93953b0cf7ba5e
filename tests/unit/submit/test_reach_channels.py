"""The channel to a program on a node: what its threads do to one another."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from tests.support import PATIENCE_S, eventually
from umiak.submit.reach import channels
from umiak.submit.reach.channels import ProcessChannel

DEAF = "import time; print('up', end='', flush=True); time.sleep(600)"


def test_closed_while_somebody_writes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program reads nothing, so that the writer is in the middle of a call: that one ends, and wrote to nothing else."""
    monkeypatch.setattr(channels, "END_S", 0.2)
    channel = ProcessChannel([sys.executable, "-c", DEAF], dict(os.environ))
    assert channel.read() == b"up"
    ended: list[BaseException] = []

    def write() -> None:
        try:
            channel.write(bytes(1 << 20))
        except BrokenPipeError as error:
            ended.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    eventually(channel._writing.locked)
    channel.close()
    thread.join(PATIENCE_S)
    assert [type(each) for each in ended] == [BrokenPipeError]
    with pytest.raises(BrokenPipeError, match="closed"):
        channel.write(b"more")

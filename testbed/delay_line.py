"""Program: a cable that takes its time, as `python -m testbed.delay_line END OTHER_END` in the namespace of the switch.

It makes two TAP interfaces with these names, and carries each frame from one to the other: not faster than the rate allows, and later by the delay. For
kernels that have no `netem`. Its input has lines `DELAY_S BITS_PER_S`, of which the last one counts; a rate of 0 is none at all, and `stall` keeps
everything back until the next line. It answers each with `ok`, and ends with its input.

Frames keep the kernel's own header in front (`IFF_VNET_HDR`), so that what TCP sends at once stays one frame of up to 64 kB: 10 Gbit/s are a few ten
thousand frames in a second, which Python can carry.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque

_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETHDRSZ = 0x4004_54CA, 0x4004_54D0, 0x4004_54D8
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_CHECKSUMS_AND_SEGMENTS = 0x1 | 0x2 | 0x4  # TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6
_HEADER_BYTES = 10
_MOST_FRAME_BYTES = _HEADER_BYTES + 14 + 65_536
MOST_WAITING_BYTES = 64 << 20
"""What one direction holds; what comes on top is lost, as in a router."""


class Direction:
    """Frames on their way from one end to the other."""

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._free_at = 0.0

    def take(self, delay_s: float, bits_per_s: float) -> None:
        """Read all frames that are there."""
        while True:
            try:
                frame = os.read(self.source, _MOST_FRAME_BYTES)
            except BlockingIOError:
                return
            except OSError:
                return  # the interface is down
            if self._waiting_bytes + len(frame) > MOST_WAITING_BYTES:
                continue
            begins = max(time.monotonic(), self._free_at)
            self._free_at = begins + (8 * (len(frame) - _HEADER_BYTES) / bits_per_s if bits_per_s else 0.0)
            self._waiting.append((self._free_at + delay_s, frame))
            self._waiting_bytes += len(frame)

    def deliver(self) -> float | None:
        """Write the frames whose time has come. When the next one's comes."""
        while self._waiting:
            when, frame = self._waiting[0]
            if when > time.monotonic():
                return when
            self._waiting.popleft()
            self._waiting_bytes -= len(frame)
            try:
                os.write(self.target, frame)
            except OSError:
                pass  # the interface is down: the frame is lost
        return None


def tap(name: str) -> int:
    """The descriptor of a new TAP interface."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(descriptor, _TUNSETVNETHDRSZ, struct.pack("i", _HEADER_BYTES))
    fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _CHECKSUMS_AND_SEGMENTS)
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return descriptor


def main(end: str, other_end: str) -> None:
    """Carry frames until the input ends."""
    one, other = tap(end), tap(other_end)
    directions = (Direction(one, other), Direction(other, one))
    by_source = {direction.source: direction for direction in directions}
    delay_s, bits_per_s, is_stalled = 0.0, 0.0, False
    text = b""
    print("ready", flush=True)
    while True:
        due = [] if is_stalled else [when for when in [line.deliver() for line in directions] if when is not None]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        readable, _, _ = select.select([0, *by_source], [], [], wait_s)
        for source in readable:
            if source:
                by_source[source].take(delay_s, bits_per_s)
                continue
            piece = os.read(0, 4096)
            if not piece:
                return
            *lines, text = (text + piece).split(b"\n")
            for line in lines:
                is_stalled = line == b"stall"
                if not is_stalled:
                    delay_s, bits_per_s = map(float, line.split())
                print("ok", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""What submitting a job costs, and what travels with it.

python -m benchmarks.submit                 everything
python -m benchmarks.submit --only zip      the launcher from its one file, beside the installed one
python -m benchmarks.submit --only start    help and a dry run, beside TorchX
python -m benchmarks.submit --only list     10,000 listed runs
python -m benchmarks.submit --only ssh      a job on 64 hosts, beside fabric (after `make bench-fabric`)
python -m benchmarks.submit --only logs     how late followed lines come
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from benchmarks import sections, submit_commands, submit_ssh, submit_zip
from benchmarks.measure import Figure

SECTIONS: Mapping[str, Callable[[bool], Iterator[Figure]]] = {
    "zip": submit_zip.first_line,
    "start": submit_commands.start,
    "list": submit_commands.runs,
    "ssh": submit_ssh.start,
    "logs": submit_ssh.following,
}


def main() -> int:
    """The command."""
    asked = sections.parser("benchmarks.submit", __doc__ or "", SECTIONS).parse_args()
    return sections.run(SECTIONS, asked.quick, asked)


if __name__ == "__main__":
    sys.exit(main())

"""The frame of a benchmark that has sections: its options, the loop over them, what is printed and written. An adapter.

    parser = sections.parser("benchmarks.ps", __doc__, SECTIONS)
    asked = parser.parse_args()
    return sections.run(SECTIONS, Run(asked.quick), asked)

A section is a function from what was asked for to figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from benchmarks import measure
from benchmarks.measure import Figure
from umiak.adapters import process

Run = TypeVar("Run")
"""What was asked of a benchmark, as its sections want it."""


def parser(module: str, description: str, names: Iterable[str]) -> argparse.ArgumentParser:
    """With the options that every such benchmark has; it may add its own. Of the description the first line is shown."""
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=description.partition("\n")[0])
    made.add_argument("--quick", action="store_true", help="few repetitions")
    made.add_argument(
        "--only", nargs="+", action="extend", choices=[*names], help="measure only this; may be said again"
    )
    made.add_argument("--json", metavar="FILE", help="write every single measurement there")
    return made


def run(
    sections: Mapping[str, Callable[[Run], Iterator[Figure]]],
    wanted: Run,
    asked: argparse.Namespace,
    before: Callable[[Run], None] = lambda _: None,
) -> int:
    """Measure and print; the exit status says whether everything of ours worked, not whether it was fast.

    ``before`` is done once, ahead of the sections. Nothing that was started outlives this.
    """
    measure.tidy_up()
    facts = measure.machine()
    print("machine: " + ", ".join(f"{name} {fact}" for name, fact in facts.items()), flush=True)
    figures: list[Figure] = []
    status = 0
    try:
        before(wanted)
        for name in asked.only or sections:
            began = time.monotonic()
            for figure in sections[name](wanted):
                figures.append(figure)
                print(f"\n{measure.table(figure)}", flush=True)
            print(f"  ({name}: {time.monotonic() - began:.0f} s)", flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    finally:
        process.kill_descendants()
    if asked.json:
        content = {"machine": facts, "quick": asked.quick, "figures": [figure.plain() for figure in figures]}
        Path(asked.json).write_text(json.dumps(content, indent=1) + "\n")
    return status or int(any(not figure.own.values for figure in figures))

"""``python -m umiak.models.sample rank.dnn``: makes the sample data of a model of the zoo. A program, without Paddle.

What is printed on stdout is one line of JSON: where the data is, and the best that any model can reach on it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from umiak.core.nearest import nearest
from umiak.core.problem import Exit
from umiak.models.samples import SAMPLES, SEED
from umiak.train.config import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.models.samples import Maker

LEAST = 100
"""With fewer samples a test part may have no click."""

EXAMPLES = """\
examples:
  python -m umiak.models.sample --list
  python -m umiak.models.sample rank.dnn
  umiak train -m umiak.models.rank.dnn

  python -m umiak.models.sample rank.din --samples 200000 --seed 7 --out /tmp/din
"""


def main(words: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = _parser()
    options = parser.parse_args(words)
    known = models()
    if options.list:
        sys.stdout.write("".join(f"{name}\n" for name in known))
        return Exit.DONE
    if options.model is None:
        parser.error("which model? --list shows them")
    name = options.model.removeprefix("umiak.models.")
    if name not in known:
        meant = nearest(name, known)
        parser.error(
            f"no such model: {name}" + (f"; did you mean {meant}?" if meant else "; --list shows those there are")
        )
    if options.samples < LEAST:
        parser.error(f"--samples: {LEAST} or more, not {options.samples}")
    if options.seed < 0:
        parser.error(f"--seed: 0 or more, not {options.seed}")
    directory = options.out or os.path.join("umiak_data", *name.split("."))
    make: Maker = importlib.import_module(f"umiak.models.{name}.sample").make
    try:
        best = make(directory, options.samples, options.seed)
    except OSError as error:
        sys.stderr.write(f"error: can't be written: {error.filename}: {error.strerror}\n")
        return Exit.REFUSED
    sys.stdout.write(json.dumps({"directory": directory, "samples": options.samples, "best": best}) + "\n")
    return Exit.DONE


def models() -> tuple[str, ...]:
    """The models that have sample data."""
    library = load.installed()
    return tuple(
        name
        for name in library.models
        if os.path.isfile(os.path.join(library.root, "models", *name.split("."), "sample.py"))
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m umiak.models.sample",
        description="Make sample data for a model of the zoo: DIR/train, DIR/test and DIR/best.json, which says the best AUC "
        "that any model can reach on DIR/test. The same seed makes the same bytes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", help="its name, such as rank.dnn")
    parser.add_argument(
        "--out", metavar="DIR", help="where to; default: umiak_data/rank/dnn, as the model's config has it"
    )
    parser.add_argument(
        "--samples",
        metavar="N",
        type=int,
        default=SAMPLES,
        help=f"for training; a quarter as many for tests are added (default: {SAMPLES})",
    )
    parser.add_argument("--seed", metavar="S", type=int, default=SEED, help=f"of what is drawn (default: {SEED})")
    parser.add_argument("--list", action="store_true", help="show the models, and do nothing else")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has gone, as `head`, ends it quietly
    raise SystemExit(main())

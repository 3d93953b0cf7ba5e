"""``python -m umiak.train -m config.yaml`` is `umiak train -m config.yaml`: a second door to it. A program.

It takes the place of ``python -u tools/trainer.py ARGS`` of a checkout of PaddleRec 2.
"""

from __future__ import annotations

import sys

from umiak.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))

"""``python -m umiak.launch ARGS`` is `umiak launch ARGS`: a second door to it. A program.

It takes the place of ``python -m paddle.distributed.launch ARGS`` in scripts and job files, where only the module's
name has to be changed.
"""

from __future__ import annotations

import sys

from umiak.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["launch", *sys.argv[1:]]))

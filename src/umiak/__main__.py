"""``python -m umiak COMMAND`` is `umiak COMMAND`, for environments without the command on PATH. A program."""

from __future__ import annotations

import sys

from umiak.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

"""``python -m paddlerec.run -m config.yaml``: the same as ``umiak train -m config.yaml``."""

import sys

from umiak.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))

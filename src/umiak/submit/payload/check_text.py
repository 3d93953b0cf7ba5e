"""The checks that are sent to nodes as text, because nothing that lies there can be trusted to make them. An adapter.

rule()       `umiak.adapters.ownership`, as text that any Python from 3.10 on can execute
command()    words for ``python3 -I -S -c``: the program `node_check`, packed so that no shell changes a letter of it
"""

from __future__ import annotations

import binascii
import os
import zlib

from umiak.adapters import ownership
from umiak.submit.payload.launcher_modules import stripped

VALUE_IMPORT, RULE_IMPORT = (
    "from umiak.core.value import value\n",
    "from umiak.adapters.ownership import first_untrusted\n",
)
FUTURE = "from __future__ import annotations\n"
_VALUE = """
def value(cls):
    cls.__init__ = lambda self, **given: self.__dict__.update(given)
    return cls
"""
TOO_OLD = """
import sys
if sys.version_info < (3, 10):
    sys.stderr.write("error: Python is too old: %d.%d [UM-SUBMIT-050]\\n" % sys.version_info[:2])
    sys.stderr.write("  hint: umiak's launcher needs Python 3.10 or newer; name one with `python` of the place\\n")
    sys.exit(3)
"""


def rule() -> str:
    """The text of `umiak.adapters.ownership`, without its one import of umiak."""
    return stripped(_text_of(ownership.__file__).replace(VALUE_IMPORT, _VALUE))


def command() -> str:
    """`node_check`, which an old Python reads as well, to say that it is too old."""
    path = os.path.join(os.path.dirname(__file__), "node_check.py")
    program = stripped(_text_of(path).replace(FUTURE, "").replace(RULE_IMPORT, ""))
    return executing(f"{TOO_OLD}{unpacking(f'{rule()}{program}')}\n")


def executing(text: str) -> str:
    """Python in letters that no shell changes, save the quotes inside."""
    letters = binascii.b2a_base64(text.encode(), newline=False).decode()
    return f'exec(__import__("binascii").a2b_base64("{letters}"))'


def unpacking(text: str) -> str:
    """A line of Python that executes a text, and is compiled without looking into it."""
    letters = binascii.b2a_base64(packed(text), newline=False).decode()
    return f'exec(__import__("zlib").decompress(__import__("binascii").a2b_base64("{letters}")))'


def packed(text: str) -> bytes:
    """Compressed: it becomes words of a command."""
    return zlib.compress(text.encode(), 9)


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()

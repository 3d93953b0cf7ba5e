"""The first words of Python on a host: they see to it that the launcher's file is there, and go on in it. Values.

Any Python reads them, an old one to say that it is too old. They come as an argument of ``python -c``, in letters that no shell
changes. Nothing secret is among them; all that is sent later comes through standard input: a line about the launcher, a line with the
first question, which may be empty, and the launcher's file if the answer asks for it. So where the launcher is there already, its agent starts and
answers without anybody waiting in between. `json` is not imported, as in the agent.
"""

from __future__ import annotations

import binascii

_CODE = """
import sys
if sys.version_info < (3, 10):
    sys.stdout.write('{"old": "%d.%d"}\\n' % sys.version_info[:2])
    sys.exit(3)
import os
i, o = sys.stdin.buffer, sys.stdout.buffer
def say(x):
    o.write(x.encode() + b"\\n")
    o.flush()
c, s, h = i.readline().decode().rstrip("\\n").split(" ", 2)
q, s = i.readline(), int(s)
d = os.path.join(os.path.expanduser("~"), os.path.expanduser(h))
p = os.path.join(d, "launchers", c + ".pyz")
try:
    n = os.path.getsize(p) != s
except OSError:
    n = True
if n:
    say('{"needs_launcher": true}')
    b = i.read(s)
    t = "%s.%d.new" % (p, os.getpid())
    try:
        import hashlib
        if hashlib.sha256(b).hexdigest() != c:
            raise OSError(5, "the launcher arrived damaged", p)
        os.makedirs(d, mode=0o700, exist_ok=True)
        os.makedirs(os.path.dirname(p), mode=0o700, exist_ok=True)
        with open(os.open(t, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(b)
        os.rename(t, p)
    except OSError as e:
        try:
            os.unlink(t)
        except OSError:
            pass
        import json
        say(json.dumps({"error": e.filename or t, "why": e.strerror, "errno": e.errno}))
        sys.exit(3)
else:
    try:
        os.utime(p)
    except OSError:
        pass
import zipimport
z = zipimport.zipimporter(p)
g = {"__name__": "umiak_launcher", "__loader__": z}
exec(z.get_code("__main__"), g)
g["prepare_agent"](p, z.get_data)
from umiak.submit.node import agent
say('{"ready": true}')
sys.exit(agent.main(d, p, i, o, q))
"""


def command(python: str) -> str:
    """For the shell of a host. Without site-packages, which take time to look through and are not needed."""
    import shlex

    packed = binascii.b2a_base64(_CODE.encode(), newline=False).decode()
    # A leading ~/ is the shell's to expand.
    words = " ".join(
        f"~/{shlex.quote(each[2:])}" if each.startswith("~/") else shlex.quote(each) for each in shlex.split(python)
    )
    return f'exec {words} -S -E -c \'exec(__import__("binascii").a2b_base64("{packed}"))\''

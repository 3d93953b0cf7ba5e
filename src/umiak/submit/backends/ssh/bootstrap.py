"""The first words of Python on a host: they see to it that the launcher's file is there
and is the one that was built here, and go on in it. An adapter.

Any Python reads them, an old one to say that it is too old. They come as an argument of ``python -c``, in letters that
no shell changes. Nothing secret is among them; all that is sent later comes through standard input: a line about the
launcher, a line with the first question, which may be empty, and the launcher's file if the answer asks for it. So
where the launcher is there already, its agent starts and answers without anybody waiting in between. `json` is not
imported, as in the agent.

Nothing that lies on the host is run or imported before it is known that nobody but the user and root can change it,
from the root directory down, and that the launcher has the hash that came with the question. Most ways are plainly the
user's own, which a few lines see; for the others the whole rule, `umiak.adapters.ownership`, comes with these words,
and is compiled only then.
"""

from __future__ import annotations

import binascii
import functools

from umiak.submit.payload import check_text

_OLD = """
import sys
if sys.version_info < (3, 10):
    sys.stdout.write('{"old": "%d.%d"}\\n' % sys.version_info[:2])
    sys.exit(3)
"""
_CODE = """
import os
i, o = sys.stdin.buffer, sys.stdout.buffer
def say(x):
    o.write(x.encode() + b"\\n")
    o.flush()
def refuse(**x):
    import json
    say(json.dumps(x))
    sys.exit(3)
c, s, h, *w = i.readline().decode().rstrip("\\n").split("\\0")
q, s = i.readline(), int(s)
d = os.path.join(os.path.expanduser("~"), os.path.expanduser(h))
p = os.path.join(d, "launchers", c + ".pyz")
def is_plain(x):
    a, u, e = "", (0, os.geteuid()), os.lstat("/")
    if x[:1] != "/" or os.path.normpath(x) != x:
        return False
    for y in x.split("/")[1:]:
        if e.st_uid not in u or e.st_mode & 0o170022 != 0o040000 and e.st_mode & 0o171000 != 0o041000:
            return False
        a += "/" + y
        try:
            e = os.lstat(a)
        except FileNotFoundError:
            return True
        except OSError as f:
            refuse(error=a, why=f.strerror, errno=f.errno)
    return e.st_uid in u and e.st_mode & 0o170022 == 0o100000
def check():
    if is_plain(p):
        return
    g = {"__name__": "umiak_ownership"}
    exec(RULE, g)
    f = g["first_untrusted"](p, allowed=w)
    if f:
        refuse(error=p, why=str(f), code="UM-SUBMIT-350", path=f.path)
def is_sent(b):
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256
    return sha256(b).hexdigest() == c
check()
n = True
try:
    with open(os.open(p, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", 0) as f:
        b = f.read(s + 1)
        n = len(b) != s or not is_sent(b)
except OSError:
    pass
if n:
    say('{"needs_launcher": true}')
    b = i.read(s)
    t = "%s.%s.new" % (p, os.urandom(6).hex())
    try:
        if not is_sent(b):
            raise OSError(5, "the launcher arrived damaged", p)
        k = os.umask(0o077)
        os.makedirs(os.path.dirname(p), exist_ok=True)
        os.umask(k)
        check()
        with open(os.open(t, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(b)
        os.rename(t, p)
    except OSError as e:
        try:
            os.unlink(t)
        except OSError:
            pass
        refuse(error=e.filename or t, why=e.strerror, errno=e.errno)
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
sys.exit(agent.main(d, p, i, o, q, w))
"""


def command(python: str) -> str:
    """For the shell of a host. Without site-packages, which take time to look through and are not needed,
    and without what lies in the directory where the shell begins.
    """
    import shlex

    # A leading ~/ is the shell's to expand.
    words = " ".join(
        f"~/{shlex.quote(each[2:])}" if each.startswith("~/") else shlex.quote(each) for each in shlex.split(python)
    )
    return f"exec {words} -I -S -c '{_program()}'"


def first_line(sha256: str, size_bytes: int, directory: str, trusted: tuple[str, ...] = ()) -> str:
    """The line about the launcher.
    ``trusted``: directories at and below which everything is taken for the user's own.
    """
    return "\0".join((sha256, str(size_bytes), directory, *trusted))


@functools.cache
def _program() -> str:
    rule = binascii.b2a_base64(check_text.packed(check_text.rule()), newline=False).decode()
    late = _CODE.replace("RULE", f'__import__("zlib").decompress(__import__("binascii").a2b_base64("{rule}"))')
    return check_text.executing(f"{_OLD}{check_text.unpacking(late)}\n")

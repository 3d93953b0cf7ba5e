"""The text of `umiak image --help`, and the reference page, made from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.image.flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped

USAGE = """\
usage: umiak image [flags]

Make a container image for jobs: print its Dockerfile, or build and push it with docker or buildah. The
build fails if the image can't import what it must. umiak itself travels with each job.
"""
EXAMPLES = (
    ("umiak image --device cuda --cuda 12.6 > Dockerfile", "the Dockerfile alone"),
    ("umiak image --device cuda --cuda 12.6 -t me/ctr:1 --push", "builds, checks, pushes"),
    ("umiak image --platform modelarts -t swr.example.com/me/ctr:1", "user and paths of ModelArts"),
    ("umiak image --base python:3.11 --package pandas -t ctr", "into another image"),
)
ENDING = "Exit status: 0 if it worked, 2 for a wrong command line, 3 if the image could not be built or pushed."

PAGE = """\
<!-- Made by `python docs/generate.py` from umiak.cli.image. Change these, not this file. -->

# `umiak image`

```
umiak image [flags]
```

Prints the Dockerfile of an image for jobs, or builds it (`--tag`) and pushes it (`--push`) with docker or, where its daemon does not answer, buildah.
The last step of the build looks for Python 3.10 and imports what the image must have; where that needs a driver (`npu`, `xpu`, `dcu`), it looks whether the
modules are there. Nothing of umiak is in the image: the launcher [travels with each job](../explanation/what-travels.md).

```console
$ umiak image --device cuda --cuda 12.6
$ umiak image --platform modelarts --tag swr.example.com/me/ctr:1 --push
```

| flag | default | meaning |
|---|---|---|
{flags}

The context of the build is empty: no file of yours gets into the image. Where pip finds packages is said by the build arguments `PIP_INDEX_URL` and
`PIP_EXTRA_INDEX_URL`; Paddle's wheels for GPUs and other devices are not on PyPI, so that `--base` with such a device needs the latter.

With `--platform modelarts` the image has the user `ma-user` (1000) and the group 100, with which ModelArts runs it. Its home, the `user-job-dir` of older
jobs and `/cache` belong to it.
"""


def text() -> str:
    """The help of `umiak image`."""
    lines = [USAGE, "Examples:"]
    lines += [f"  {example:<62}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/image.md."""
    rows = (f"| {_code(spelling(flag))} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in FLAGS)
    return PAGE.replace("{flags}", "\n".join(rows))


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""

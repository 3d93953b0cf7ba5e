"""The reference page of places as Markdown: the keys of ``[place.NAME]`` for every backend, made from their tables. A decider."""

from __future__ import annotations

from umiak.schema import kinds
from umiak.schema.keys import known
from umiak.submit.backends.aihc import request as aihc
from umiak.submit.backends.bml import request as bml
from umiak.submit.backends.kubernetes import settings as kubernetes
from umiak.submit.backends.modelarts import request as modelarts
from umiak.submit.backends.mpi import settings as mpi
from umiak.submit.backends.paddlecloud import keys as paddlecloud
from umiak.submit.backends.pai import request as pai
from umiak.submit.backends.ray import settings as ray
from umiak.submit.backends.slurm import settings as slurm
from umiak.submit.backends.ssh import settings as ssh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.keys import Key

PAGE = """\
<!-- Made by `python docs/generate.py` from the tables of the backends. Change these, not this file. -->

# Places in umiak.toml

A place is where jobs run: `umiak submit --on NAME`. The nearest `umiak.toml`, from the working directory upwards, names the places of a project,
and `~/.config/umiak/config.toml` yours (`XDG_CONFIG_HOME` moves it); a place of the project hides one of yours with the same name.
A file that somebody else could have written, or that lies where others can write, is refused: [who is trusted](../explanation/trust.md) says how to allow it.

```toml
default_place = "lab"        # without --on

[place.lab]
backend = "ssh"
hosts = ["node0", "node1"]

[place.hpc]
backend = "slurm"
partition = "gpu"
```

`default_place` is `local` unless it is set. Each place has a `backend`, one of those below or one that an installed package
[brings](../tutorials/add-a-backend.md), and the keys of this backend. A key that is unknown, or has a wrong value, is reported with its file and line before
anything is sent. Passwords and access keys have no key here: they come from environment variables.

The place `local`, this machine, is always there and has no keys. The variable `UMIAK_PLACES` may hold the text of a further such file, which is the nearest of all.
"""

SECTIONS: tuple[tuple[str, str, tuple[tuple[str, tuple[Key, ...]], ...]], ...] = (
    ("ssh", "[Hosts over ssh](../how-to/submit-ssh.md).", (("", ssh.KEYS),)),
    (
        "slurm",
        "[Slurm](../how-to/submit-slurm.md). Keys from `submit_host` on are for machines that reach Slurm over ssh.",
        (("", slurm.KEYS),),
    ),
    ("mpi", "[Hosts that mpirun reaches](../how-to/submit-mpi.md).", (("", mpi.KEYS),)),
    ("ray", "[A Ray cluster](../how-to/submit-ray.md).", (("", ray.KEYS),)),
    (
        "kubernetes",
        "[A Kubernetes cluster](../how-to/submit-kubernetes.md).",
        (
            ("", kubernetes.KEYS),
            ("Each table of `volumes`:", kubernetes.VOLUME_KEYS),
            ("Each table of `tolerations`:", kubernetes.TOLERATION_KEYS),
        ),
    ),
    (
        "paddlecloud",
        "[PaddleCloud](../how-to/submit-paddlecloud.md); the same keys as in a backend.yaml.",
        (
            ("", paddlecloud.PLACE),
            ("`[place.NAME.config]`:", paddlecloud.CONFIG),
            ("`[place.NAME.config.communicator]`:", paddlecloud.COMMUNICATOR),
            ("`[place.NAME.submit]`:", paddlecloud.SUBMIT),
        ),
    ),
    ("modelarts", "[Huawei ModelArts](../how-to/submit-modelarts.md).", (("", modelarts.TABLE),)),
    ("aihc", "[Baidu AIHC](../how-to/submit-baidu.md).", (("", aihc.TABLE),)),
    ("bml", "[Baidu BML](../how-to/submit-baidu.md).", (("", bml.TABLE),)),
    ("pai", "[Alibaba PAI](../how-to/submit-pai.md).", (("", pai.TABLE),)),
)
"""Each backend: what it is, and its tables with a line above each."""


def places_reference() -> str:
    """docs/reference/places.md."""
    parts = [PAGE]
    for name, text, tables in SECTIONS:
        parts.append(f"## {name}\n\n{text}\n")
        for above, keys in tables:
            parts += [f"{above}\n"] if above else []
            rows = [_row(key) for key in keys if known(key)]
            parts.append("\n".join(["| key | value | default | meaning |", "|---|---|---|---|", *rows, ""]))
    return "\n".join(parts)


def _row(key: Key) -> str:
    value = ", ".join(f"`{each}`" for each in key.choices) if key.kind is kinds.CHOICE else key.kind.phrase
    if key.least is not None:
        value += f", {key.least} or more"
    default = (
        "required" if key.required else key.default_said or ("" if key.default is None else f"`{_toml(key.default)}`")
    )
    return f"| `{key.name}` | {_cell(value)} | {_cell(default) or '-'} | {_cell(key.meaning)} |"


def _toml(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

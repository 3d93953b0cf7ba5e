"""Writes what is made from the code: pages of docs/reference, the JSON schemas of configs and jobs, manifests in deploy/. A program.

    python docs/generate.py           write them
    python docs/generate.py --check   write nothing; exit 1 and name every page that would change

A page here can't tell less than the code knows: a variable, a platform or a message without its line fails the build.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from umiak import platforms
from umiak.adapters.version import version
from umiak.cli.deploy import chart
from umiak.cli.deploy import help as help_deploy
from umiak.cli.doctor import help as help_doctor
from umiak.cli.hosts import help as help_hosts
from umiak.cli.image import help as help_image
from umiak.cli.kubeconfig import help as help_kubeconfig
from umiak.cli.machines import help as help_machines
from umiak.cli.operator import help as help_operator
from umiak.cli.runs import help as help_runs
from umiak.cli.texts import help_ps
from umiak.cli.texts.reference import launch_reference
from umiak.cli.texts.reference_job import job_reference
from umiak.cli.texts.reference_paddlejob import paddlejob_reference
from umiak.cli.texts.reference_places import places_reference
from umiak.cli.texts.reference_train import config_reference, train_reference
from umiak.core.value import fields
from umiak.submit import job_schema
from umiak.testing import environments
from umiak.train.config import json_schema

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for pages that have a module of their own beside this one
from docs.worker_environment import environment_page
from docs.zoo_page import zoo_page

REFERENCE = Path(__file__).resolve().parent / "reference"
SOURCE = Path(platforms.__file__).resolve().parents[1]
NATIVE = Path(__file__).resolve().parents[1] / "native"


def main(argv: list[str]) -> int:
    """Write the pages, or compare them with what is there."""
    stale = []
    made = {f"docs/reference/{name}": (REFERENCE / name, make) for name, make in PAGES.items()}
    made["src/umiak/train/config.schema.json"] = (SOURCE / "train" / json_schema.FILE, json_schema.text)
    made["src/umiak/submit/job.schema.json"] = (SOURCE / "submit" / job_schema.FILE, job_schema.text)
    for name, content in chart.files(version()).items():
        made[name] = (REFERENCE.parents[1] / name, partial(str, content))
    for name, (path, make) in made.items():
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if not stale:
        return 0
    if "--check" in argv:
        print(f"error: not what the code says: {', '.join(stale)}\n  hint: run `make docs`", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}")
    return 0


# ---- platforms.md


def platforms_page() -> str:
    """Every rule of `umiak.platforms` in the order of decision."""
    rows = ["| name | what it is | told by one of | reads as well | fills in |", "|---|---|---|---|---|"]
    for rule in platforms.RULES:
        cells = (_code([rule.name]), _purpose(rule.place), _code(rule.markers), _code(rule.variables), _told(rule.name))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([PLATFORMS_HEAD, *rows, ""])


def _purpose(place: str) -> str:
    """The first line of a rule's docstring."""
    module, _, function = place.partition(":")
    found = getattr(importlib.import_module(f"umiak.platforms.{module}"), function)
    return (found.__doc__ or "").strip().splitlines()[0].replace("`", "")


def _told(name: str) -> str:
    """What a node learns there: the filled fields of its placement, tried with the simulated platform."""
    if name not in environments.PLATFORMS:
        return "one node"
    environ = environments.environment(name, nodes=2, rank=1)
    placement = platforms.detect(environ, only=name, read=environments.files(name, nodes=2).get)
    assert placement is not None, f"the simulated {name} is not recognised"
    filled = [field for field in fields(placement) if getattr(placement, field) not in (None, ())]
    words = [field.replace("_", " ") for field in filled if field not in ("platform", "reason")]
    if name in environments.WITH_SERVERS:
        words.append("roles")
    return ", ".join(dict.fromkeys(words))


PLATFORMS_HEAD = """\
<!-- Made by `python docs/generate.py` from umiak.platforms.RULES. Change the rules, not this file. -->

# Platforms

`umiak launch` looks at its environment and goes by the first row whose variables it finds. It says in one line which row that
was and why:

    platform: slurm, node 1 of 2 (SLURM_NODEID=1 of SLURM_STEP_NUM_NODES=2)

`--topology NAME` asks for one row and is an error if its variables are missing; `--topology none` looks at no row. What is
said on the command line wins over what the platform says. How to use it: [run on a platform](../how-to/run-on-a-platform.md).

The order matters: who started this very process comes before who owns the machine, then contracts that were made for
Paddle, then platforms with a mark of their own, then schedulers, and last the bare variables that anybody may set. `<TASK>`,
`<ROLE>` and `<i>` stand for many variables. *Fills in* says what a node of a plain job of two nodes learns there; *roles*
means that a platform can also tell servers from trainers.
"""


# ---- protocol.md


def protocol_page() -> str:
    """Every message between launchers, from the classes that they are."""
    launchers = _classes(SOURCE / "launch" / "protocol.py")
    check = _classes(SOURCE / "launch" / "preflight" / "messages.py")
    parts = [PROTOCOL_HEAD]
    for title, union in (
        ("## A node says to the master", "FROM_NODE"),
        ("## The master says to a node", "FROM_MASTER"),
    ):
        parts.append(title + "\n")
        parts += [_message(launchers[name]) for name in _tuple(SOURCE / "launch" / "protocol.py", union)]
    said = {name for union in ("FROM_NODE", "FROM_MASTER") for name in _tuple(SOURCE / "launch" / "protocol.py", union)}
    parts.append(PARTS_TEXT)
    parts += [_message(each) for name, each in launchers.items() if name not in said]
    parts.append(CHECK_TEXT)
    parts += [_message(each) for each in check.values()]
    return "\n".join(parts)


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _tuple(path: Path, name: str) -> tuple[str, ...]:
    """The names in a module's tuple of classes."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and ast.unparse(node.targets[0]) == name:
            return tuple(ast.unparse(each) for each in node.value.elts)
    raise SystemExit(f"docs/generate.py: {path.name} has no {name}")


def _message(found: ast.ClassDef) -> str:
    """One class: its docstring, and a table of its fields or the words of its enumeration."""
    lines = [f"### {found.name}", ""]
    text = ast.get_docstring(found)
    if text:
        lines += [_plain(text), ""]
    rows = []
    for node, following in zip(found.body, [*found.body[1:], None], strict=True):
        said = _said(following)
        if isinstance(node, ast.AnnAssign):
            default = "" if node.value is None else f"`{_cell(ast.unparse(node.value))}`"
            kind = _cell(ast.unparse(node.annotation))
            rows.append(f"| `{ast.unparse(node.target)}` | `{kind}` | {default} | {said} |")
        elif isinstance(node, ast.Assign):
            rows.append(f"| `{ast.literal_eval(node.value)}` | | | {said} |")
    if rows:
        lines += ["| field | kind | default | meaning |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _said(node: ast.stmt | None) -> str:
    """The string that stands below a field."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return _cell(_plain(node.value.value))
    return ""


PROTOCOL_HEAD = """\
<!-- Made by `python docs/generate.py` from umiak.launch.protocol. Change the classes, not this file. -->

# What launchers say to one another

Every node's launcher holds one TCP connection, its *link*, to the master's launcher. A frame is four bytes of length,
big-endian, and that many bytes of JSON. Frames of somebody who has not proved anything yet may be 4 KiB long, the message by
which a node joins without a token 64 KiB, later ones of a node 1 MiB and of a master 16 MiB; a longer one ends the connection before
it is read. Nothing is pickled, and every field is checked: its type, and its range (`umiak.launch.message_checks`). Ports are 0 to
65535, ranks and generations are not negative, durations are finite, an exit status is 0 to 255; a host has only letters, digits and
`-._:%`; texts lose their control characters. A node that joins with anything else is refused
([UM-MEET-033](errors.md#um-meet-033)); one that says it later is given up as if it had fallen silent.

A link begins with a handshake:

```text
caller     {"umiak": 2, "job": "ctr", "nonce": "...", "for": "join"}
listener   {"umiak": 2, "challenge": "..."}
caller     {"proof": "..."}
listener   {"proof": "..."}                                                      or {"refused": "why"}
listener   {"welcome": 1718000000.0}         or {"moved": ["10.0.0.2", 20417]}
```

With a token, a proof is the HMAC-SHA256, in hexadecimal, of the JSON list `["umiak", 2, role, job, for, nonce, challenge]`, where
role is `caller` or `listener`; without one it is empty. The token itself never travels, and the listener proves nothing before the
caller has. Each step must follow within ten seconds. `for` is one of

| `for` | meaning |
|---|---|
| `join` | to take part in the job |
| `callback KEY` | the master calls a node that has just joined at the address that it offers; KEY is what the node sent with its Join |
| `are-you NAME` | is the launcher of this name here? |
| `takeover HOST PORT GENERATION LINEAGE HOW` | the caller leads; HOW is `formed`, or before that `ready` if it has a majority, `gathering` while it looks for one |

To the second and third the answer is `welcome` or `{"other": true}`, to the last one `welcome`, or `moved` where the job goes on.
While the listener does not know who leads, it sends `{"b": 0}`. After the handshake there are messages,
`{"m": {"is": "Ready", ...}}`, and heartbeats, `{"b": 7, "heard": 6}`, one a second from each side (more often with a
`--heartbeat_timeout` below five seconds): their number, and the number of the last heartbeat that was received. A launcher that lets
go of a link and lives on says `{"left": 1}` first.

A message that belongs to one formation carries its generation, so that one that comes late is known and dropped. Which
message follows which is shown in [ARCHITECTURE.md](../../ARCHITECTURE.md#the-protocol-between-launchers), and played through in
`tests/scripts/*.txt`.
"""
PARTS_TEXT = "## What messages are made of\n"
CHECK_TEXT = """\
## Messages of a check

The workers of [`umiak launch --check`](../how-to/check-the-cluster.md) speak in frames of the same form, without handshake
and token: nothing that they say is secret, and nothing is believed beyond its use in a table.
"""


# ---- modules.md

KINDS = ("values", "decider", "adapter", "program", "package")
_ADJECTIVES = "(?:small |pure |frozen )*"
_KIND = re.compile(
    rf"[.?:;] (?:(?:A|An) {_ADJECTIVES}(decider|adapter|program|package|value)|(Values|Deciders|Adapters))\b"
)
_KIND_AFTER_A_COLON = re.compile(rf": (?:an? )?{_ADJECTIVES}(value|decider|adapter)s?\b")


class Module(NamedTuple):
    """What a module says of itself."""

    name: str
    kind: str
    text: str


def modules() -> list[Module]:
    """Every module of umiak with its kind. A package whose docstring names no other kind is a package."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = _plain(said.split("\n\n")[0])
        kind, text = _kind_and_text(first)
        if kind is None:
            kind = "package" if parts[-1] == "__init__" else None
        if kind is None:
            raise SystemExit(f"docs/generate.py: the docstring of {name} does not say its kind: {', '.join(KINDS)}")
        found.append(Module(name, kind, text))
    return sorted(found)


def _kind_and_text(first: str) -> tuple[str | None, str]:
    """From the first paragraph of a docstring, ``Reads flags. A decider.``, its kind and the rest."""
    match = _KIND.search(first) or _KIND_AFTER_A_COLON.search(first)
    if match is None:
        return None, first.rstrip(".")
    word = next(group for group in match.groups() if group).lower().rstrip("s")
    return "values" if word == "value" else word, first[: match.start()]


def modules_page() -> str:
    """Every module: those of umiak with their kinds, then those of the native core."""
    packages: dict[str, list[Module]] = {}
    for module in modules():
        packages.setdefault(".".join(module.name.split(".")[:2]), []).append(module)
    alone = [packages.pop(name)[0] for name in [name for name, inside in packages.items() if len(inside) == 1]]
    parts = [MODULES_HEAD]
    for title, inside in (("umiak", alone), *packages.items()):
        rows = [f"| `{each.name}` | {each.kind} | {_cell(each.text)} |" for each in inside]
        parts.append("\n".join([f"## {title}", "", "| module | kind | what is in it |", "|---|---|---|", *rows, ""]))
    rows = [f"| `native/{path.relative_to(NATIVE).as_posix()}` | {_cell(text)} |" for path, text in native_files()]
    parts.append("\n".join(["## native", "", NATIVE_TEXT, "| file | what is in it |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def native_files() -> list[tuple[Path, str]]:
    """Every file of the native core with the first sentence of its documentation."""
    found = []
    for path in sorted((NATIVE / "src").rglob("*.rs")):
        lines = re.match(r"(?:^//!.*\n)+", path.read_text(encoding="utf-8"), re.MULTILINE)
        if lines is None:
            raise SystemExit(f"docs/generate.py: native/{path.relative_to(NATIVE)} does not say what it is for")
        text = _plain(re.sub(r"^//! ?", "", lines[0], flags=re.MULTILINE).split("\n\n")[0])
        found.append((path, re.split(r"[.:;] (?=[A-Z])|\.$", text)[0]))
    return found


MODULES_HEAD = """\
<!-- Made by `python docs/generate.py` from the docstrings of the modules. Change those, not this file. -->

# Modules

Every module, its kind, and the first sentence of its docstring. *Values* say what something is; *deciders* are pure: values in,
values out; *adapters* do I/O and decide nothing; *programs* put these together. Which of them a change belongs in:
[ARCHITECTURE.md](../../ARCHITECTURE.md#where-a-line-goes).
"""
NATIVE_TEXT = "The crate behind `umiak_native`: the parameter server, its client, and the slot reader.\n"


# ---- small parts


def _code(words: tuple[str, ...] | list[str]) -> str:
    return " ".join(f"`{_cell(word)}`" for word in words)


def _plain(text: str) -> str:
    """A docstring as Markdown in one paragraph."""
    return " ".join(text.split()).replace("``", "`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {
    "config.md": config_reference,
    "deploy.md": help_deploy.reference,
    "doctor.md": help_doctor.reference,
    "hosts.md": help_hosts.reference,
    "image.md": help_image.reference,
    "job.md": job_reference,
    "kubeconfig.md": help_kubeconfig.reference,
    "operator.md": help_operator.reference,
    "machines.md": help_machines.reference,
    "launch.md": launch_reference,
    "modules.md": modules_page,
    "places.md": places_reference,
    "paddlejob.md": paddlejob_reference,
    "platforms.md": platforms_page,
    "ps-status.md": help_ps.reference,
    "submit.md": help_runs.reference,
    "protocol.md": protocol_page,
    "train.md": train_reference,
    "worker-environment.md": environment_page,
    "zoo.md": zoo_page,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

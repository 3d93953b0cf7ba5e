"""A command line of `kubectl umiak` as one of `umiak`, with the cluster that it is about as a place. A decider.

    translated(["status", "ctr-3f2a9c10", "-n", "ml"])
    KubectlWords(words=("status", "kubernetes://kubectl/ctr-3f2a9c10"), places='[place.kubectl]...')

``-n``, ``--context`` and ``--kubeconfig`` mean what they mean for kubectl, and may stand anywhere before ``--``.
"""

from __future__ import annotations

import json

from umiak.cli.texts.command_page import CommandPage
from umiak.core.nearest import nearest
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.schema.flags import Flag

PLACE = "kubectl"
ABOUT_RUNS = {
    "status": "show the status of a run",
    "logs": "print or follow its logs",
    "wait": "wait for it; the exit status is the job's",
    "cancel": "stop it",
    "exec": "run a command, or a shell, on one of its nodes",
    "fetch": "copy its logs, checkpoints and other files here",
}
COMMANDS = {
    "list": "list the runs of the namespace, of everybody",
    **ABOUT_RUNS,
    "deploy": "print the manifests of the PaddleJob operator",
}
FLAGS = {"-n": "namespace", "--namespace": "namespace", "--context": "context", "--kubeconfig": "kubeconfig"}


@value
class KubectlWords:
    """What `umiak` is to do."""

    words: tuple[str, ...] = ()
    places: str = ""
    """In TOML: the place `kubectl`."""
    wants_help: bool = False


def translated(argv: Sequence[str]) -> KubectlWords:
    """UmiakError with what is wrong."""
    words, said = _taken(argv)
    if not words or words[0] in ("-h", "--help", "help"):
        return KubectlWords(wants_help=True)
    command, *rest = words
    if command not in COMMANDS:
        meant = nearest(command, COMMANDS)
        hint = f"did you mean `kubectl umiak {meant}`?" if meant else f"it is one of {', '.join(COMMANDS)}"
        raise UmiakError.of("UM-CLI-004", f"unknown command of kubectl umiak: {command}", hint=hint)
    if command == "deploy":
        where = ["--namespace", said["namespace"]] if "namespace" in said else []
        return KubectlWords(words=(command, *where, *rest))
    rest = ["--on", PLACE, "--everybody", *rest] if command == "list" else _with_handle(command, rest)
    rows = "".join(f"{name} = {json.dumps(text)}\n" for name, text in said.items())
    return KubectlWords(words=(command, *rest), places=f'[place.{PLACE}]\nbackend = "kubernetes"\n{rows}')


def _taken(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words without kubectl's flags, and what these say."""
    words: list[str] = []
    said: dict[str, str] = {}
    left = list(argv)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*words, word, *left], said
        flag, sign, text = word.partition("=")
        if word.startswith("-n") and word[2:3] not in ("", "="):  # as in -nml
            flag, sign, text = "-n", "=", word[2:]
        if flag not in FLAGS:
            words.append(word)
            continue
        if not sign:
            text = left.pop(0) if left else ""
        if not text:
            raise UmiakError.of("UM-CLI-002", f"missing value: {flag}", hint="`kubectl umiak --help`")
        said[FLAGS[flag]] = text
    return words, said


def _with_handle(command: str, words: list[str]) -> list[str]:
    """The same words with the run's handle in the place of its id."""
    flags = _flags(command)

    def arguments(tried: Sequence[str]) -> tuple[str, ...]:
        parsed = command_line.parse(flags, tried, {}, starts_program=False, arguments=len(words))
        return parsed.arguments[:1] or (("--help",) if parsed.wants_help else ())

    found = arguments(words)
    if found == ("--help",):
        return words
    if not found:
        hint = "`kubectl umiak list` prints the runs of the namespace"
        raise UmiakError.of("UM-CLI-122", f"kubectl umiak {command}: which run?", hint=hint)
    if "://" in found[0]:
        return words
    handle = f"kubernetes://{PLACE}/{found[0]}"
    changed = [[*words[:at], handle, *words[at + 1 :]] for at, word in enumerate(words) if word == found[0]]
    return next(each for each in changed if arguments(each) == (handle,))


def _flags(command: str) -> tuple[Flag, ...]:
    from umiak.cli.runs import flags

    tables: tuple[Flag, ...] = getattr(flags, command.upper())
    return tables


PAGE = CommandPage(
    usage=("kubectl umiak COMMAND [RUN] [flags]",),
    about="Runs of `umiak submit` in the current context and namespace of your kubeconfig.",
    examples=(
        ("kubectl umiak list", "the runs of the namespace"),
        ("kubectl umiak logs ctr-3f2a9c10 -f", "follows the logs of a run"),
        ("kubectl umiak status ctr-3f2a9c10 -n ml --context prod", "in another namespace and cluster"),
    ),
    lists=(
        ("Commands", tuple((name, f"{about[0].upper()}{about[1:]}.") for name, about in COMMANDS.items())),
        (
            "Cluster",
            (
                (
                    "-n, --namespace NAME",
                    "Namespace. Default: the context's. The limit of `list` and the tail of `logs` have long flags only.",
                ),
                ("--context NAME", "Context of the kubeconfig. Default: the current one."),
                ("--kubeconfig PATH", "Kubeconfig. Default: KUBECONFIG, else ~/.kube/config."),
            ),
        ),
    ),
    ending="RUN is a run's id, as `kubectl umiak list` prints it. `kubectl umiak COMMAND --help` lists a command's other flags.",
)

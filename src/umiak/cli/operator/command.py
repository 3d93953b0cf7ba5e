"""`umiak operator`: reads the flags and runs the operator. A program."""

from __future__ import annotations

import os

from umiak.cli.operator.flags import FLAGS
from umiak.core.problem import Problem, UmiakError
from umiak.kube.access import ACCOUNT
from umiak.operator.controller import http_pages
from umiak.operator.options import OperatorOptions
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed

DEFAULT_NAMESPACE = "paddle-system"


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak operator`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak operator", starts_program=False)
    if parsed.wants_help:
        return printer.page("operator")
    problems = [*parsed.problems, *_addresses(parsed)]
    UmiakError.raise_any(problems)
    for line in parsed.notes:
        printer.note(line)
    if parsed.settings["initImage"].said:
        printer.note("--initImage changes nothing: no init container waits for peers here")
    try:
        from umiak.operator.controller import program
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "aiohttp":
            raise
        from umiak.adapters import installation

        raise UmiakError.of(
            "UM-OPERATOR-001",
            "the operator needs the package aiohttp",
            why="it is not installed here",
            hint=installation.command("operator"),
        ) from None
    program.set_up_logging(as_json=parsed.truth("json"), is_verbose=parsed.truth("verbose"))
    return program.run(options_of(parsed), environ)


def options_of(parsed: Parsed) -> OperatorOptions:
    """What was asked for."""
    gang = parsed.text("scheduling")
    return OperatorOptions(
        namespaces=tuple(dict.fromkeys(each.strip() for each in parsed.text("namespace").split(",") if each.strip())),
        with_kubeflow=parsed.truth("kubeflow"),
        with_kueue=parsed.truth("kueue"),
        gang="" if gang == "none" else gang,
        etcd=parsed.text("etcd_server"),
        elects=parsed.truth("leader_elect"),
        lease_namespace=parsed.text("leader_elect_namespace") or _own_namespace(),
        metrics_address=parsed.text("metrics_bind_address"),
        health_address=parsed.text("health_probe_bind_address"),
        in_flight=parsed.number("in_flight") or 32,
        node_timeout_s=parsed.seconds("node_timeout") or 60.0,
        kubeconfig=parsed.text("kubeconfig"),
        context=parsed.text("context"),
    )


def _own_namespace() -> str:
    try:
        with open(os.path.join(ACCOUNT, "namespace"), encoding="utf-8") as file:
            return file.read().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _addresses(parsed: Parsed) -> list[Problem]:
    problems = []
    for name in ("metrics_bind_address", "health_probe_bind_address"):
        text = parsed.text(name)
        try:
            http_pages.address_of(text)
        except ValueError:
            flag = name.replace("_", "-")
            hint = "expected :PORT, ADDRESS:PORT, or 0 for none"
            problems.append(Problem(code="UM-OPERATOR-003", what=f"--{flag}: not an address: {text}", hint=hint))
    return problems

"""`umiak serve`: reads the flags and the config, and starts the server. A program."""

from __future__ import annotations

import os

from umiak.cli.serve.flags import FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak serve`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak serve", starts_program=False)
    if parsed.wants_help:
        return printer.page("serve")
    token = _checked(parsed)
    from umiak.adapters.version import version
    from umiak.cli.train import check_installed

    check_installed(("yaml", "numpy", "paddle"))
    models, name = _models(parsed, printer)
    from umiak.serving import program

    options = program.ServeOptions(
        models=models,
        name=parsed.text("name") or name,
        host=parsed.text("host"),
        port=parsed.number("port") or 0,
        token=token,
        tls_certificate=parsed.text("tls_cert"),
        tls_key=parsed.text("tls_key"),
        threads=parsed.number("threads") or 1,
        most_rows=parsed.number("most_rows") or 1,
        most_waiting=parsed.number("most_waiting") or 1,
        most_body_bytes=parsed.number("most_body") or 1,
        version=version(),
    )

    def say(line: str) -> None:
        if not parsed.truth("quiet"):
            printer.talk(line)

    program.run(options, say, lambda server: printer.data(server.address))
    return Exit.DONE


def _checked(parsed: Parsed) -> str:
    """The token, if there is one. UmiakError with everything that is wrong."""
    from umiak.core.names import is_loopback
    from umiak.web.safety import token_of

    problems = [*parsed.problems]
    if parsed.program:
        problems.append(Problem(code="UM-CLI-005", what=f"unexpected argument: {parsed.program[0]}"))
    if parsed.said("model") == parsed.said("models"):
        what = "-m and --models" if parsed.said("model") else "nothing to serve: neither -m nor --models"
        problems.append(
            Problem(code="UM-SERVE-004", what=what, hint="`umiak serve -m CONFIG`, or `umiak serve --models DIR`")
        )
    host, token = parsed.text("host"), ""
    if host and not is_loopback(host):
        what = f"--host {host} is reached from other machines"
        if not parsed.said("token_file"):
            hint = "umask 077; umiak token > FILE; --token_file FILE"
            problems.append(Problem(code="UM-SERVE-005", what=f"{what}, and there is no token", hint=hint))
        if not parsed.said("tls_cert") and not parsed.truth("insecure"):
            hint = "--tls_cert FILE; or say --insecure, where something before it has TLS"
            problems.append(Problem(code="UM-SERVE-005", what=f"{what}, and there is no certificate", hint=hint))
    if parsed.said("tls_key") and not parsed.said("tls_cert"):
        problems.append(Problem(code="UM-SERVE-005", what="--tls_key without --tls_cert", hint="--tls_cert FILE"))
    if parsed.said("token_file"):
        try:
            token = token_of(parsed.text("token_file"))
        except UmiakError as error:
            problems += error.problems
    if problems:
        raise UmiakError(*problems)
    return token


def _models(parsed: Parsed, printer: Printer) -> tuple[str, str]:
    """Where inference models are, and what the model is called."""
    if parsed.said("models"):
        path = os.path.abspath(parsed.text("models"))
        parent, base = os.path.split(path)
        return path, os.path.basename(parent) if base.isdecimal() else base
    from umiak.train.config import load

    source, found = load.load(parsed.text("model"), parsed.texts.get("override", ()))
    if found.config is None:
        raise UmiakError(*found.problems)
    printer.problems(found.warnings, "warning")
    wanted = [*(found.config.runner(name) for name in found.config.mode), *found.config.runners]
    path = next((each.inference.path for each in wanted if each.inference is not None), "")
    if not path or "://" in path:
        what = "the config says no save_inference_path" if not path else f"inference models are behind a URL: {path}"
        hint = "add save_inference_path and train, or name a directory with --models"
        raise UmiakError.of("UM-SERVE-002", what, hint=hint, where=source.path)
    return os.path.abspath(path), os.path.basename(os.path.abspath(source.directory))

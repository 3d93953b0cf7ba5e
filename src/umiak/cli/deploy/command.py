"""`umiak deploy`: prints the manifests of the operator. A program."""

from __future__ import annotations

import json
import os

from umiak.cli.deploy import chart, objects
from umiak.cli.deploy.flags import FLAGS
from umiak.cli.deploy.options import options_of
from umiak.core.problem import Exit, UmiakError
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak deploy`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak deploy", starts_program=False)
    if parsed.wants_help:
        return printer.page("deploy")
    options = options_of(parsed)
    if parsed.text("kustomize"):
        _write(parsed.text("kustomize"), chart.kustomize_files(options))
        printer.note(f"written: `kubectl apply -k {parsed.text('kustomize')}`")
        return Exit.DONE
    manifests = objects.objects(options)
    if parsed.truth("delete"):
        manifests = objects.leaving(options, with_definitions=parsed.truth("crd"))
        if parsed.truth("crd"):
            printer.talk("warning: all PaddleJobs of the cluster are deleted with their definition")
    if parsed.truth("json"):
        printer.data(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2))
    else:
        printer.data(chart.documents(manifests))
    return Exit.DONE


def _write(directory: str, files: Mapping[str, str]) -> None:
    """The kustomization last, so that it never names a file that is not there."""
    try:
        os.makedirs(directory, exist_ok=True)
        for name in sorted(files, key=lambda each: each == chart.KUSTOMIZATION):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write(files[name])
    except OSError as error:
        raise UmiakError.refused(
            "UM-DEPLOY-043",
            f"--kustomize: the directory can't be written to: {directory}",
            why=error.strerror,
            hint="name a directory of your own that is there or can be made",
        ) from None

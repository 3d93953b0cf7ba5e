"""`umiak deploy`: prints the manifests of the operator. A program."""

from __future__ import annotations

import json

from umiak.cli.deploy import objects
from umiak.cli.deploy.flags import FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.paddlejob.names import is_host_label
from umiak.schema import command_line
from umiak.submit.backends.kubernetes import yaml_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak deploy`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak deploy", starts_program=False)
    if parsed.wants_help:
        from umiak.cli.deploy import help as help_page

        printer.data(help_page.text())
        return Exit.DONE
    options = _options(parsed)
    made = objects.objects(options)
    if parsed.truth("delete"):
        made = objects.leaving(options, with_definitions=parsed.truth("crd"))
        if parsed.truth("crd"):
            printer.talk("warning: all PaddleJobs of the cluster are deleted with their definition")
    if parsed.truth("json"):
        printer.data(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}, indent=2))
    else:
        printer.data("---\n".join(yaml_text.as_yaml(each) for each in made))
    return Exit.DONE


def _options(parsed: Parsed) -> objects.DeployOptions:
    problems = list(parsed.problems)
    for name in ("namespace", "watch"):
        if (word := parsed.text(name)) and not is_host_label(word):
            hint = "use small letters, digits and hyphens, at most 63 characters"
            problems.append(Problem(code="UM-DEPLOY-001", what=f"--{name} is not a namespace: {word}", hint=hint))
    if problems:
        raise UmiakError(*problems)
    secret = parsed.text("pull_secret")
    only_crd, only_operator = parsed.truth("crd"), parsed.truth("operator")
    return objects.DeployOptions(
        namespace=parsed.text("namespace") or objects.NAMESPACE,
        watched=parsed.text("watch"),
        image=parsed.text("image") or objects.IMAGE,
        pull_secrets=(secret,) if secret else (),
        replicas=parsed.number("replicas") or 0,
        scheduling=parsed.text("scheduling"),
        etcd=parsed.text("etcd_server"),
        has_kubeflow=parsed.truth("kubeflow"),
        is_old_cluster=parsed.truth("v1beta1"),
        has_crd=only_crd or not only_operator,
        has_operator=only_operator or not only_crd or parsed.truth("delete"),
    )

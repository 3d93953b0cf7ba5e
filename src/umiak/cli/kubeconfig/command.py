"""`umiak kubeconfig`: checks a downloaded kubeconfig and adds it to a person's own. A program."""

from __future__ import annotations

import base64
import json
import os
import sys
import time

from umiak.adapters import private_files
from umiak.cli.kubeconfig.flags import FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line, without_password
from umiak.kube import access, answers, api, kubeconfig
from umiak.schema import command_line
from umiak.submit.backends.kubernetes import rights, yaml_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.kube.kubeconfig import KubeAccess
    from umiak.schema.flags import Parsed

TIMEOUT_S = 15.0
SOON_S = 14 * 86400
"""A certificate that ends this soon is told."""


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak kubeconfig`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak kubeconfig", starts_program=False, arguments=1)
    if parsed.wants_help:
        return printer.page("kubeconfig")
    problems = list(parsed.problems)
    if not parsed.arguments and not parsed.truth("check"):
        hint = "write `umiak kubeconfig kubeconfig.yaml`; `--check` alone looks at what you have"
        problems.append(Problem(code="UM-SUBMIT-191", what="no kubeconfig is named", hint=hint))
    UmiakError.raise_any(problems)
    into = parsed.text("into") or access.paths("", environ)[0]
    own = access.read(into, environ) if os.path.exists(into) and os.path.getsize(into) else {}
    if parsed.arguments:
        brought, used, name = _brought(parsed, environ)
    else:
        brought, used = own, parsed.text("use") or parsed.text("context")
        name = used or str(own.get("current-context") or "")
    found = kubeconfig.access_of(brought, used, parsed.arguments[0] if parsed.arguments else into)
    namespace = parsed.text("namespace") or found.namespace or "default"
    warnings = _certificates(found)
    look = None if parsed.truth("offline") else _look(found, name, namespace, environ)
    if look and look.missing:
        warnings.append(_missing(look, name, namespace))
    printer.problems(warnings, "warning")
    if not parsed.truth("check"):
        _add(own, brought, found, name=name, into=into, parsed=parsed)
        printer.talk(f"added: context {name} in {into}")
    _print(parsed, found, look, name, namespace, printer)
    return Exit.REFUSED if parsed.truth("check") and look and look.missing else Exit.DONE


def _brought(parsed: Parsed, environ: Mapping[str, str]) -> tuple[JsonObject, str, str]:
    """The file, the context of it that is used, and the name that it gets."""
    path = parsed.arguments[0]
    if path == "-":
        config = kubeconfig.located(kubeconfig.parse(sys.stdin.read(), "standard input"), os.getcwd())
    else:
        config = access.read(path, environ)
    used = parsed.text("use") or str(config.get("current-context") or "")
    known = kubeconfig.contexts(config)
    if not used and len(known) == 1:
        used = known[0]
    stem = os.path.splitext(os.path.basename(path))[0]
    name = parsed.text("context") or (parsed.text("from") if stem in ("", "-", "config", "kubeconfig") else stem)
    if not used and known:
        hint = "take one of its contexts: " + " or ".join(f"`--use {one_line(each)}`" for each in known)
        raise UmiakError.of("UM-SUBMIT-191", f"{path} has several contexts and no current one", hint=hint)
    return config, used, name


def _certificates(found: KubeAccess) -> list[Problem]:
    warnings = []
    if found.is_unverified:
        warnings.append(
            Problem(
                code="UM-SUBMIT-194",
                what="the cluster's certificate is not checked: insecure-skip-tls-verify",
                why="somebody in between could read your token and your secrets",
                hint="use a context that checks it; Huawei CCE has externalTLSVerify",
            )
        )
    pem = base64.b64decode(found.cert_data) if found.cert_data else b""
    if found.cert_file and not pem:
        pem = access.read_text(found.cert_file).encode()
    ends = kubeconfig.ends_at(pem) if pem else None
    if ends is not None and ends - time.time() < SOON_S:
        days = int((ends - time.time()) // 86400)
        what = f"your certificate ends in {days} days" if days >= 0 else "your certificate has ended"
        hint = "download the kubeconfig again"
        warnings.append(Problem(code="UM-SUBMIT-194", what=f"{what}: context {one_line(found.context)}", hint=hint))
    return warnings


def _look(found: KubeAccess, name: str, namespace: str, environ: Mapping[str, str]) -> rights.ClusterLook:
    client = api.KubeApi(found, environ, timeout_s=TIMEOUT_S)
    try:
        return rights.look(client, namespace)
    except (answers.KubeRefused, answers.KubeSilent) as error:
        raise answers.told(error, name, found) from None
    finally:
        client.close()


def _missing(look: rights.ClusterLook, name: str, namespace: str) -> Problem:
    return Problem(
        code="UM-SUBMIT-193",
        what=f"{name}: rights are missing in the namespace {namespace}: {', '.join(look.missing)}",
        hint="ask the cluster's administrator for a Role with them, or take another namespace: `--namespace`",
    )


def _add(own: JsonMapping, brought: JsonMapping, found: KubeAccess, *, name: str, into: str, parsed: Parsed) -> None:
    there = kubeconfig.server_of(own, name)
    if there and there.rstrip("/") != found.server and not parsed.truth("overwrite"):
        raise UmiakError.of(
            "UM-SUBMIT-192",
            f"there is a context of this name in {into}: {one_line(name)}",
            why=f"its cluster is {without_password(there)}",
            hint="take another name, `--context NAME`, or replace it: `--overwrite`",
        )
    merged = kubeconfig.merged(
        own, _with_data(brought), found.context, as_name=name, namespace=parsed.text("namespace")
    )
    try:
        os.makedirs(os.path.dirname(os.path.abspath(into)), mode=private_files.PRIVATE_DIRECTORY, exist_ok=True)
        private_files.write(os.path.realpath(into), yaml_text.as_yaml(merged))
    except OSError as error:
        raise UmiakError.refused(
            "UM-SUBMIT-191", f"the kubeconfig can't be written: {into}", why=error.strerror
        ) from None


def _with_data(config: JsonMapping) -> JsonObject:
    """With the content of files in the place of their names: the downloaded ones may be gone tomorrow."""
    data = dict(config)
    for plural, single in kubeconfig.LISTS.items():
        rows = []
        for row in config.get(plural) or ():
            inner = dict(row.get(single) or {})
            for key, as_data in kubeconfig.FILES.get(single, {}).items():
                if as_data and inner.get(key) and os.path.exists(inner[key]):
                    inner[as_data] = base64.b64encode(access.read_text(inner.pop(key)).encode()).decode()
            rows.append({"name": row["name"], single: inner})
        data[plural] = rows
    return data


def _print(
    parsed: Parsed,
    found: KubeAccess,
    look: rights.ClusterLook | None,
    name: str,
    namespace: str,
    printer: Printer,
) -> None:
    if parsed.truth("json"):
        data = {"context": name, "server": without_password(found.server), "namespace": namespace}
        if look:
            data |= {"version": look.version, "kind": look.kind}
        printer.data(json.dumps({**data, "missing": list(look.missing) if look else None}))
        return
    if look:
        printer.talk(
            f"{without_password(found.server)} answers: Kubernetes {look.version}, jobs are made into a {look.kind}"
        )
    lines = [
        f"[place.{name}]",
        'backend = "kubernetes"',
        f"context = {json.dumps(name)}",
        f"namespace = {json.dumps(namespace)}",
    ]
    if parsed.text("into"):
        lines.append(f"kubeconfig = {json.dumps(os.path.abspath(parsed.text('into')))}")
    if look:
        lines.append(f'kind = "{look.kind}"')
    printer.data("\n".join([*lines, '# image = "registry.example/paddle:3.3"']))

"""The reference page of PaddleJob as Markdown, made from the tables of fields. A decider."""

from __future__ import annotations

from umiak.paddlejob import job_fields, kubeflow_fields, status_fields
from umiak.paddlejob.fields import FieldKind, described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.paddlejob.fields import ResourceField

PAGE = """\
<!-- Made by `python docs/generate.py` from umiak.paddlejob. Change its tables, not this file. -->

# PaddleJob

A training job in a Kubernetes cluster, for umiak's operator: `batch.paddlepaddle.org/v1`, short name `pdj`. Manifests for paddle-operator 0.3 are read as they are; fields
that it did not have are marked *new*.

```yaml
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: wide-and-deep
spec:
  withGloo: 1
  intranet: PodIP
  cleanPodPolicy: OnCompletion
  worker:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.example/wide-and-deep:v1
  ps:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.example/wide-and-deep:v1
```

More of them: [deploy/samples](../../deploy/README.md). The definitions are [deploy/crd.yaml](../../deploy/crd.yaml) and, for Kubernetes 1.15 and older,
[deploy/crd-v1beta1.yaml](../../deploy/crd-v1beta1.yaml); [`umiak deploy`](deploy.md) prints them as well. `kubectl explain pdj.spec` shows this table in a terminal.

## spec

| field | value | default | meaning |
|---|---|---|---|
{spec}

Pods are called `<name>-<role>-<index>`, and so are their hosts: at most 63 characters. What is wrong with a manifest is told in a condition of its status, all at once, with
[codes](errors.md#paddlejobs); API servers of Kubernetes 1.25 and newer refuse some of it at once:

{rules}

## status

Written by the operator, and by nobody else.

| field | value | meaning |
|---|---|---|
{status}

`kubectl get pdj` shows `phase`, `mode` and the age; `-o wide` also `workers`, `restarts`, `progress.percent` and `message`. `kubectl scale pdj NAME --replicas N` sets
`worker.replicas`.

## kubeflow.org/v1

PaddleJobs of Kubeflow's training-operator are read into the same values if the operator runs with `--kubeflow`. Master is `ps`, Worker is `worker`. The definition is
[deploy/crd-kubeflow.yaml](../../deploy/crd-kubeflow.yaml): its status has the fields above as well, which the operator needs, so that it replaces Kubeflow's own definition.

| field | value | default | meaning |
|---|---|---|---|
{kubeflow}
"""


def paddlejob_reference() -> str:
    """docs/reference/paddlejob.md."""
    rules = [*job_fields.RULES, *job_fields.name_rules()]
    rules += [rule for _, field in described(job_fields.FIELDS, "spec") for rule in field.rules]
    return PAGE.format(
        spec=_rows(described(job_fields.FIELDS, "spec"), drop="spec."),
        rules="\n".join(dict.fromkeys(f"- {rule.message}" for rule in rules)),
        status="\n".join(
            f"| `{path.removeprefix('status.')}` | {_value(field)} | {_meaning(field)} |"
            for path, field in described(status_fields.FIELDS, "status")
        ),
        kubeflow=_rows(described(kubeflow_fields.FIELDS, "spec"), drop="spec.", is_foreign=True),
    )


def _rows(found: Iterable[tuple[str, ResourceField]], drop: str, *, is_foreign: bool = False) -> str:
    rows = []
    for path, field in found:
        default = "required" if field.required else field.default or "-"
        meaning = field.meaning if is_foreign and not field.unused else _meaning(field)
        rows.append(f"| `{path.removeprefix(drop)}` | {_value(field)} | {default} | {meaning} |")
    return "\n".join(rows)


def _value(field: ResourceField) -> str:
    if field.words:
        return ", ".join(f"`{word}`" for word in field.words)
    if field.kind is FieldKind.INTEGER and field.least is not None and field.most is not None:
        return f"integer, {field.least} to {field.most:,}"
    return {
        FieldKind.INTEGER: "integer" if field.least is None else f"integer, {field.least} or more",
        FieldKind.BOOLEAN: "boolean",
        FieldKind.TIME: "time",
        FieldKind.TEMPLATE: "pod template",
    }.get(field.kind, field.kind.value.removeprefix("an ").removeprefix("a "))


def _meaning(field: ResourceField) -> str:
    new = "" if field.is_old else "*New.* "
    return f"{new}{field.meaning}{f' No effect: {field.unused}.' if field.unused else ''}"

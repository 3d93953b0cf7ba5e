"""The files of deploy/: manifests, and a Helm chart from the same objects. A decider.

    files("0.1.0")     {"deploy/crd.yaml": "...", "deploy/chart/values.yaml": "...", ...}

The chart's templates are the manifests with Helm's expressions where a value is to be put in; nothing is written twice.
"""

from __future__ import annotations

from umiak.cli.deploy import objects
from umiak.paddlejob import crd
from umiak.submit.backends.kubernetes.yaml_text import as_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

HEAD = "# Made by `make docs` from umiak.cli.deploy and umiak.paddlejob. Change these, not this file.\n"
CHART = "deploy/chart"
RELEASE = "{{ .Release.Namespace }}"
PULLED = "umiak-image-pull-secrets"
"""Stands in a template where a list is put in."""

VALUES = f"""\
# The operator's image. deploy/Dockerfile makes one.
image: {objects.IMAGE}
imagePullPolicy: IfNotPresent
# Names of Secrets with the credentials of the image's registry: [{{name: registry}}]
imagePullSecrets: []

# Operators; one of them acts, the others wait to take over.
replicas: 1

# Gang scheduler of the cluster: none, volcano, scheduler-plugins or native.
scheduling: none

# etcd of elastic jobs as host:port; empty: jobs bring their own meeting point.
etcdServer: ""

# Serve kubeflow.org/v1 PaddleJobs as well. Their definition is deploy/crd-kubeflow.yaml.
kubeflow: false

resources:
  requests:
    cpu: 100m
    memory: 128Mi
  limits:
    memory: 300Mi
"""

NOTES = """\
The PaddleJob operator runs in the namespace {{ .Release.Namespace }}.

  kubectl -n {{ .Release.Namespace }} get deployment paddle-controller-manager
  kubectl get pdj --all-namespaces -o wide

Helm never changes or deletes the definition of PaddleJob. After an upgrade of this chart:

  kubectl apply --server-side -f crds/paddlejob.yaml
"""

FLAGS_SAID = """\
        {{- if ne .Values.scheduling "none" }}
        - "--scheduling={{ .Values.scheduling }}"
        {{- end }}
        {{- if .Values.etcdServer }}
        - "--etcd-server={{ .Values.etcdServer }}"
        {{- end }}
        {{- if .Values.kubeflow }}
        - "--kubeflow"
        {{- end }}
"""

IGNORED = ".git/\n*.orig\n*.tgz\n"


def files(version: str) -> dict[str, str]:
    """Every made file of deploy/ by its path in the repository."""
    plain = objects.DeployOptions()
    return {
        "deploy/crd.yaml": manifest([crd.resource()]),
        "deploy/crd-v1beta1.yaml": manifest([crd.old_resource()]),
        "deploy/crd-kubeflow.yaml": manifest([crd.kubeflow_resource()]),
        "deploy/operator.yaml": manifest([each for each in objects.objects(plain) if each["kind"] != crd_kind()]),
        f"{CHART}/Chart.yaml": HEAD + as_yaml(_chart(version)),
        f"{CHART}/values.yaml": HEAD + VALUES,
        f"{CHART}/.helmignore": IGNORED,
        f"{CHART}/crds/paddlejob.yaml": manifest([crd.resource()]),
        f"{CHART}/templates/NOTES.txt": NOTES,
        f"{CHART}/templates/deployment.yaml": HEAD + _deployment(),
        f"{CHART}/templates/rights.yaml": manifest(objects.rights(_templated())),
        f"{CHART}/templates/rights-optional.yaml": HEAD + _optional(),
    }


def crd_kind() -> str:
    """The kind of definitions."""
    kind: str = crd.resource()["kind"]
    return kind


def manifest(made: Iterable[dict[str, Any]]) -> str:
    """Objects as one file."""
    return HEAD + "---\n".join(as_yaml(each) for each in made)


def _chart(version: str) -> dict[str, Any]:
    plain = version.partition("+")[0]
    return {
        "apiVersion": "v2",
        "name": "umiak-operator",
        "description": "Operator for PaddleJob, the distributed training job of PaddlePaddle",
        "type": "application",
        "version": plain,
        "appVersion": plain,
        "kubeVersion": ">=1.16.0-0",
    }


def _templated() -> objects.DeployOptions:
    return objects.DeployOptions(namespace=RELEASE, image="{{ .Values.image }}", pull_secrets=(PULLED,))


def _deployment() -> str:
    text = as_yaml(objects.deployment(_templated()))
    plain = as_yaml({"resources": objects.RESOURCES})
    changes = (
        ("  replicas: 1\n", "  replicas: {{ .Values.replicas }}\n"),
        ("imagePullPolicy: IfNotPresent\n", "imagePullPolicy: {{ .Values.imagePullPolicy }}\n"),
        (
            f"      imagePullSecrets:\n      - name: {PULLED}\n",
            "      {{- with .Values.imagePullSecrets }}\n      imagePullSecrets:\n      {{- toYaml . | nindent 8 }}\n      {{- end }}\n",
        ),
        (
            "".join(f"        {line}\n" for line in plain.splitlines()),
            "        resources:\n          {{- toYaml .Values.resources | nindent 10 }}\n",
        ),
        (
            '        - "--health-probe-bind-address=:8081"\n',
            '        - "--health-probe-bind-address=:8081"\n' + FLAGS_SAID,
        ),
    )
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def _optional() -> str:
    """Rights that only some clusters need."""
    parts = [
        f'{{{{- if eq .Values.scheduling "{driver}" }}}}\n' + _only(objects.GANG, scheduling=driver)
        for driver in objects.GANG_GROUPS
    ]
    parts.append("{{- if .Values.kubeflow }}\n" + _only(objects.KUBEFLOW, has_kubeflow=True))
    return "".join(f"{part}{{{{- end }}}}\n" for part in parts)


def _only(role: str, *, scheduling: str = "none", has_kubeflow: bool = False) -> str:
    options = objects.DeployOptions(namespace=RELEASE, scheduling=scheduling, has_kubeflow=has_kubeflow)
    names = (role, role.removesuffix("role") + "rolebinding")
    made = [each for each in objects.rights(options) if each["metadata"]["name"] in names]
    return "".join(f"---\n{as_yaml(each)}" for each in made)

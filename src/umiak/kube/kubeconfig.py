"""Kubeconfigs: what they say about one context, how several are one, and how a new one is added to a person's own. A decider.

    config = parse(text, "~/.kube/config")
    access = access_of(config, "prod")          where the API is, and who asks
    merged(own, config, "prod", as_name="cce")

What clouds hand out is read as well: the file itself as YAML or JSON, or the answer of their API that has it in a field.
"""

from __future__ import annotations

import json
import posixpath

from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import Secrets, one_line, without_password
from umiak.core.value import value
from umiak.schema import yaml_tree
from umiak.schema.findings import Findings, choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

IN_ANSWERS = ("config", "kubeConfig", "kubeconfig", "KubeConfig")
"""Fields of clouds' answers in which there is a kubeconfig as text."""
LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
FILES = {
    "cluster": {"certificate-authority": "certificate-authority-data"},
    "user": {"client-certificate": "client-certificate-data", "client-key": "client-key-data", "tokenFile": ""},
}
"""Keys that name a file, and the key that would have its content instead."""


@value
class ExecPlugin:
    """A program that prints credentials."""

    version: str
    command: str
    arguments: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    hint: str = ""
    """What its kubeconfig says about installing it."""
    wants_cluster: bool = False


@value
class KubeAccess:
    """Where a cluster's API is, and who asks. What is secret never shows itself."""

    server: str
    """``https://host:port``, with a path where there is a proxy of clusters."""
    context: str = ""
    namespace: str = ""
    ca_file: str = ""
    ca_data: str = ""
    """In base64, as all data here."""
    cert_file: str = ""
    cert_data: str = ""
    key_file: str = ""
    token_file: str = ""
    user: str = ""
    secrets: Secrets
    """``token``, ``password`` and ``key_data``, as far as there are."""
    plugin: ExecPlugin | None = None
    is_unverified: bool = False
    server_name: str = ""
    """The name in the server's certificate, where it is another one than in its address."""
    proxy: str = ""


def parse(text: str, source: str) -> dict[str, Any]:
    """A kubeconfig as plain data. UmiakError if it is none."""
    data = _plain(text, source)
    for field in IN_ANSWERS:
        inner = data.get(field)
        if isinstance(inner, str) and "clusters" in inner:
            data = _plain(inner, source)
    if not any(data.get(each) for each in LISTS):
        what = f"not a kubeconfig: {source}"
        raise _wrong(what, "it has no clusters, users and contexts", "download it again from the cloud's console")
    for plural, single in LISTS.items():
        rows = data.get(plural) or ()
        if not isinstance(rows, (list, tuple)) or not all(
            isinstance(row, dict) and isinstance(row.get("name"), str) and isinstance(row.get(single) or {}, dict)
            for row in rows
        ):
            raise _wrong(f"{source}: {plural} is not a list of names with a {single} each")
    return data


def located(config: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """With absolute paths: those of a kubeconfig count from its own directory."""
    found = dict(config)
    for plural, single in LISTS.items():
        rows = []
        for row in config.get(plural) or ():
            inner = dict(row.get(single) or {})
            for key in FILES.get(single, {}):
                if inner.get(key):
                    inner[key] = posixpath.join(directory, str(inner[key]))
            plugin = inner.get("exec")
            if isinstance(plugin, dict) and "/" in str(plugin.get("command") or ""):
                inner["exec"] = {**plugin, "command": posixpath.join(directory, str(plugin["command"]))}
            rows.append({"name": row["name"], single: inner})
        found[plural] = rows
    return found


def joined(configs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Several files as one, as kubectl reads KUBECONFIG: of two of one name the first counts."""
    found: dict[str, Any] = {plural: [] for plural in LISTS}
    found["current-context"] = ""
    for config in configs:
        found["current-context"] = found["current-context"] or config.get("current-context") or ""
        for plural in LISTS:
            known = {row["name"] for row in found[plural]}
            found[plural] += [row for row in config.get(plural) or () if row["name"] not in known]
    return found


def contexts(config: Mapping[str, Any]) -> list[str]:
    """Their names."""
    return [row["name"] for row in config.get("contexts") or ()]


def access_of(config: Mapping[str, Any], context: str, source: str) -> KubeAccess:
    """What one context says; none: the current one."""
    name = context or str(config.get("current-context") or "")
    known = contexts(config)
    if not name and len(known) == 1:
        name = known[0]
    row = _named(config, "contexts", name)
    if row is None:
        what = f"no such context: {one_line(name)}" if name else f"no current context in {source}"
        raise _wrong(what, f"{source} has {', '.join(map(one_line, known)) or 'none'}", choices(name, known))
    cluster = _named(config, "clusters", str(row.get("cluster") or ""))
    user = _named(config, "users", str(row.get("user") or "")) if row.get("user") else {}
    if cluster is None or user is None:
        missing = f"cluster {row.get('cluster')}" if cluster is None else f"user {row.get('user')}"
        raise _wrong(f"{source}: context {one_line(name)} names what is not there: {one_line(missing)}")
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise _wrong(
            f"{source}: context {one_line(name)}: not the address of an API: {without_password(server) or 'nothing'}"
        )
    if user.get("auth-provider"):
        hint = "update the kubeconfig with your cloud's tool: today's use `exec`"
        raise _wrong(
            f"{source}: user {one_line(str(row['user']))} uses an auth-provider, which Kubernetes has removed",
            None,
            hint,
        )
    return KubeAccess(
        server=server.rstrip("/"),
        context=name,
        namespace=str(row.get("namespace") or ""),
        ca_file=_text(cluster, "certificate-authority"),
        ca_data=_text(cluster, "certificate-authority-data"),
        cert_file=_text(user, "client-certificate"),
        cert_data=_text(user, "client-certificate-data"),
        key_file=_text(user, "client-key"),
        token_file=_text(user, "tokenFile"),
        user=_text(user, "username"),
        secrets=_secrets(user),
        plugin=_plugin(user, source),
        is_unverified=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=_text(cluster, "tls-server-name"),
        proxy=_text(cluster, "proxy-url"),
    )


def merged(
    own: Mapping[str, Any],
    brought: Mapping[str, Any],
    context: str,
    *,
    as_name: str,
    namespace: str = "",
    is_current: bool = False,
) -> dict[str, Any]:
    """A person's own kubeconfig with one context of another: its context, cluster and user get one name of their own."""
    row = _named(brought, "contexts", context) or {}
    inner = {
        "clusters": dict(_named(brought, "clusters", str(row.get("cluster"))) or {}),
        "users": dict(_named(brought, "users", str(row.get("user"))) or {}),
        "contexts": {"cluster": as_name, "user": as_name},
    }
    if namespace or row.get("namespace"):
        inner["contexts"]["namespace"] = namespace or row["namespace"]
    made = {"apiVersion": "v1", "kind": "Config", **own}
    for plural, single in LISTS.items():
        rows = [each for each in own.get(plural) or () if each["name"] != as_name]
        made[plural] = [*rows, {"name": as_name, single: inner[plural]}]
    if is_current or not own.get("current-context"):
        made["current-context"] = as_name
    return made


def server_of(config: Mapping[str, Any], context: str) -> str:
    """The address of a context's API; empty if there is no such context."""
    row = _named(config, "contexts", context) or {}
    return str((_named(config, "clusters", str(row.get("cluster"))) or {}).get("server") or "")


def _plain(text: str, source: str) -> dict[str, Any]:
    data: Any = None
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except ValueError:
            data = None  # YAML has braces as well
    if data is None:
        findings = Findings()
        tree = yaml_tree.parse(text, source, findings)
        if findings.problems:
            # Where it is wrong is told, and not what stands there: it may be a key.
            where = findings.problems[0].where
            raise _wrong(f"not YAML: {where or source}", None, "download it again; nothing of it may be cut off")
        data = {} if tree is None else yaml_tree.free(tree)
    if not isinstance(data, dict):
        raise _wrong(f"not a kubeconfig: {source}", "it is no mapping")
    return data


def _named(config: Mapping[str, Any], plural: str, name: str) -> dict[str, Any] | None:
    single = LISTS[plural]
    return next((dict(row.get(single) or {}) for row in config.get(plural) or () if row["name"] == name), None)


def _text(data: Mapping[str, Any], key: str) -> str:
    found = data.get(key)
    return found.strip() if isinstance(found, str) else ""


def _secrets(user: Mapping[str, Any]) -> Secrets:
    found = {
        "token": _text(user, "token"),
        "password": _text(user, "password"),
        "key_data": _text(user, "client-key-data"),
    }
    return Secrets({name: text for name, text in found.items() if text})


def _plugin(user: Mapping[str, Any], source: str) -> ExecPlugin | None:
    said = user.get("exec")
    if not isinstance(said, dict):
        return None
    command, version = _text(said, "command"), _text(said, "apiVersion")
    if not command:
        raise _wrong(f"{source}: exec has no command")
    rows = [row for row in said.get("env") or () if isinstance(row, dict) and row.get("name")]
    return ExecPlugin(
        version=version or "client.authentication.k8s.io/v1",
        command=command,
        arguments=tuple(str(each) for each in said.get("args") or ()),
        env=tuple((str(row["name"]), str(row.get("value") or "")) for row in rows),
        hint=one_line(_text(said, "installHint"), 500),
        wants_cluster=bool(said.get("provideClusterInfo")),
    )


def _wrong(what: str, why: str | None = None, hint: str | None = None) -> UmiakError:
    return UmiakError(
        Problem(code="UM-SUBMIT-180", what=what, why=why, hint=hint or "`kubectl config view` shows what kubectl reads")
    )

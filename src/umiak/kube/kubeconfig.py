"""Kubeconfigs: what they say about one context, how several are one, and how a new one is added to a person's own.
A decider.

    config = parse(text, "~/.kube/config")
    access = access_of(config, "prod")          where the API is, and who asks
    merged(own, config, "prod", as_name="cce")

What clouds hand out is read as well: the file itself as YAML or JSON,
or the answer of their API that has it in a field.
"""

from __future__ import annotations

import json
import posixpath

from umiak.core.problem import UmiakError
from umiak.core.shown import Secrets, one_line, without_password
from umiak.core.value import value
from umiak.schema import yaml_tree
from umiak.schema.findings import Findings, choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

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


def parse(text: str, source: str) -> JsonObject:
    """A kubeconfig as plain data. UmiakError if it is none."""
    data = _plain(text, source)
    for field in IN_ANSWERS:
        inner = data.get(field)
        if isinstance(inner, str) and "clusters" in inner:
            data = _plain(inner, source)
    if not any(data.get(each) for each in LISTS):
        what = f"expected a kubeconfig, got {source}"
        raise _wrong(what, "it has no clusters, users and contexts", "download it again from the cloud's console")
    for plural, single in LISTS.items():
        rows = data.get(plural) or ()
        if not isinstance(rows, (list, tuple)) or not all(
            isinstance(row, dict) and isinstance(row.get("name"), str) and isinstance(row.get(single) or {}, dict)
            for row in rows
        ):
            raise _wrong(f"{source}: {plural} is not a list of names with a {single} each")
    return data


def located(config: JsonMapping, directory: str) -> JsonObject:
    """With absolute paths: those of a kubeconfig count from its own directory."""
    result = dict(config)
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
        result[plural] = rows
    return result


def joined(configs: Iterable[JsonMapping]) -> JsonObject:
    """Several files as one, as kubectl reads KUBECONFIG: of two of one name the first counts."""
    whole: JsonObject = {plural: [] for plural in LISTS}
    whole["current-context"] = ""
    for config in configs:
        whole["current-context"] = whole["current-context"] or config.get("current-context") or ""
        for plural in LISTS:
            known = {row["name"] for row in whole[plural]}
            whole[plural] += [row for row in config.get(plural) or () if row["name"] not in known]
    return whole


def contexts(config: JsonMapping) -> list[str]:
    """Their names."""
    return [row["name"] for row in config.get("contexts") or ()]


def access_of(config: JsonMapping, context: str, source: str) -> KubeAccess:
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
    own: JsonMapping,
    brought: JsonMapping,
    context: str,
    *,
    as_name: str,
    namespace: str = "",
    is_current: bool = False,
) -> JsonObject:
    """A person's own kubeconfig with one context of another:
    its context, cluster and user get one name of their own.
    """
    row = _named(brought, "contexts", context) or {}
    inner = {
        "clusters": dict(_named(brought, "clusters", str(row.get("cluster"))) or {}),
        "users": dict(_named(brought, "users", str(row.get("user"))) or {}),
        "contexts": {"cluster": as_name, "user": as_name},
    }
    if namespace or row.get("namespace"):
        inner["contexts"]["namespace"] = namespace or row["namespace"]
    result = {"apiVersion": "v1", "kind": "Config", **own}
    for plural, single in LISTS.items():
        rows = [each for each in own.get(plural) or () if each["name"] != as_name]
        result[plural] = [*rows, {"name": as_name, single: inner[plural]}]
    if is_current or not own.get("current-context"):
        result["current-context"] = as_name
    return result


def server_of(config: JsonMapping, context: str) -> str:
    """The address of a context's API; empty if there is no such context."""
    row = _named(config, "contexts", context) or {}
    return str((_named(config, "clusters", str(row.get("cluster"))) or {}).get("server") or "")


def _plain(text: str, source: str) -> JsonObject:
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
        raise _wrong(f"expected a kubeconfig, got {source}", "it is no mapping")
    return data


def _named(config: JsonMapping, plural: str, name: str) -> JsonObject | None:
    single = LISTS[plural]
    return next((dict(row.get(single) or {}) for row in config.get(plural) or () if row["name"] == name), None)


def _text(data: JsonMapping, key: str) -> str:
    value = data.get(key)
    return value.strip() if isinstance(value, str) else ""


def _secrets(user: JsonMapping) -> Secrets:
    texts = {
        "token": _text(user, "token"),
        "password": _text(user, "password"),
        "key_data": _text(user, "client-key-data"),
    }
    return Secrets({name: text for name, text in texts.items() if text})


def _plugin(user: JsonMapping, source: str) -> ExecPlugin | None:
    plugin = user.get("exec")
    if not isinstance(plugin, dict):
        return None
    command, version = _text(plugin, "command"), _text(plugin, "apiVersion")
    if not command:
        raise _wrong(f"{source}: exec has no command")
    rows = [row for row in plugin.get("env") or () if isinstance(row, dict) and row.get("name")]
    return ExecPlugin(
        version=version or "client.authentication.k8s.io/v1",
        command=command,
        arguments=tuple(str(each) for each in plugin.get("args") or ()),
        env=tuple((str(row["name"]), str(row.get("value") or "")) for row in rows),
        hint=one_line(_text(plugin, "installHint"), 500),
        wants_cluster=bool(plugin.get("provideClusterInfo")),
    )


def _wrong(what: str, why: str | None = None, hint: str | None = None) -> UmiakError:
    return UmiakError.of("UM-SUBMIT-180", what, why=why, hint=hint or "`kubectl config view` shows what kubectl reads")


_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17


def ends_at(pem: bytes) -> float | None:
    """When a certificate ends, in seconds since 1970; None if it can't be told.
    Read without a library for certificates: one date is needed.
    """
    import base64

    try:
        inner = pem.split(b"-----BEGIN CERTIFICATE-----", 1)[1].split(b"-----END", 1)[0]
        return _not_after(base64.b64decode(inner))
    except (IndexError, ValueError):
        return None


def _not_after(der: bytes) -> float:
    import calendar

    (_, certificate), *_ = _items(der)
    (_, signed), *_ = _items(certificate)
    parts = [part for part in _items(signed) if part[0] != _VERSION]
    # serial number, algorithm, issuer, validity
    tag, text = _items(parts[3][1])[1]
    digits = text.decode("ascii").rstrip("Z")
    if tag == _UTC_TIME:
        digits = ("19" if int(digits[:2]) >= 50 else "20") + digits
    numbers = [int(digits[:4]), *(int(digits[at : at + 2]) for at in range(4, 14, 2))]
    return float(calendar.timegm((*numbers, 0, 0, 0)))


def _items(der: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of what stands one behind the other."""
    items, at = [], 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(der[at : at + count], "big")
            at += count
        if at + length > len(der):
            raise ValueError("cut off")
        items.append((tag, der[at : at + length]))
        at += length
    return items

"""Finds a cluster and the credentials for it: kubeconfigs, plug-ins, a pod's own account; and TLS. An adapter.

    access = find(environ, context="lab")
    credentials = KubeCredentials(access, environ)
    credentials.headers(), credentials.tls()

Keys are given to TLS through memory, and never through a file of this process that others could read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import ssl
import subprocess
import time

from umiak.adapters import trusted_files
from umiak.core.problem import UmiakError
from umiak.core.shown import Secrets, one_line
from umiak.kube import kubeconfig
from umiak.kube.kubeconfig import KubeAccess
from umiak.kube.times import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umiak.core.json_types import JsonObject


ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod finds its own credentials."""
PLUGIN_S = 60.0
SPARE_S = 60.0
"""Credentials that end this soon are asked for again."""


NO_KUBECONFIG = "`umiak kubeconfig FILE` adds one that you downloaded; or name it in the place: `kubeconfig = ...`"


def find(
    environ: Mapping[str, str],
    *,
    kubeconfig_file: str = "",
    context: str = "",
    account: str = ACCOUNT,
    hint: str = NO_KUBECONFIG,
) -> KubeAccess:
    """The cluster that a kubeconfig names; without one, that of the pod that this process runs in."""
    files = paths(kubeconfig_file, environ)
    there = [path for path in files if os.path.exists(path)]
    if there:
        configs = [read(path, environ) for path in there]
        access = kubeconfig.access_of(kubeconfig.joined(configs), context, ":".join(there))
        for named in (access.ca_file, access.cert_file, access.key_file, access.token_file):
            if named:
                trusted_files.check(named, environ)
        return access
    if not kubeconfig_file and not context and environ.get("KUBERNETES_SERVICE_HOST"):
        token = os.path.join(account, "token")
        if os.path.exists(token):
            return _in_a_pod(environ, account)
    raise UmiakError.of("UM-SUBMIT-180", f"there is no kubeconfig: {':'.join(files)}", hint=hint)


def paths(file: str, environ: Mapping[str, str]) -> list[str]:
    """The files that there may be, as kubectl looks for them."""
    home = environ.get("HOME") or os.path.expanduser("~")
    if file:
        return [os.path.join(home, file[2:]) if file.startswith("~/") else file]
    named = [each for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return named or [os.path.join(home, ".kube", "config")]


def read(path: str, environ: Mapping[str, str]) -> JsonObject:
    """A kubeconfig, with absolute paths in it. It may name programs to run, so nobody else may have written it."""
    text = read_text(path)
    trusted_files.check(path, environ, "kubeconfig")
    return kubeconfig.located(kubeconfig.parse(text, path), os.path.dirname(os.path.abspath(path)))


def read_text(path: str) -> str:
    """A file of a person's, or of a pod."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        what = f"the kubeconfig can't be read: {path}"
        hint = "paths count from the working directory; download it again if it is damaged"
        raise UmiakError.refused("UM-SUBMIT-180", what, why=why, hint=hint) from None


def of_pod(environ: Mapping[str, str], account: str = ACCOUNT) -> KubeAccess | None:
    """The API of the cluster of this pod, without credentials:
    a pod that has no account knows its certificate at least.
    """
    authority = os.path.join(account, "ca.crt")
    if not environ.get("KUBERNETES_SERVICE_HOST") or not os.path.exists(authority):
        return None
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    return KubeAccess(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}", ca_file=authority, secrets=Secrets()
    )


def _in_a_pod(environ: Mapping[str, str], account: str) -> KubeAccess:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = os.path.join(account, "namespace")
    return KubeAccess(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=read_text(namespace).strip() if os.path.exists(namespace) else "",
        ca_file=os.path.join(account, "ca.crt"),
        token_file=os.path.join(account, "token"),
        secrets=Secrets(),
    )


class KubeCredentials:
    """Who asks: renewed when they end, and when the API says that they have."""

    def __init__(self, access: KubeAccess, environ: Mapping[str, str]) -> None:
        self._access = access
        self._environ = environ
        self._given = Secrets()
        """What a plug-in printed."""
        self._token = ""
        """What the token file held last."""
        self._until = 0.0
        self._context: ssl.SSLContext | None = None

    def headers(self) -> dict[str, str]:
        access = self._access
        if access.plugin and time.time() >= self._until:
            self._ask(access)
        token = self._given.get("token") or access.secrets.get("token", "")
        if access.token_file:
            token = self._token_of_file(access.token_file)
        if token:
            return {"Authorization": f"Bearer {token}"}
        if access.user and "password" in access.secrets:
            pair = f"{access.user}:{access.secrets['password']}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}

    def _token_of_file(self, path: str) -> str:
        """Read each time: a pod's token is renewed in its file.
        While the file can't be read, the token before is as good as it was.
        """
        try:
            self._token = read_text(path).strip() or self._token
        except UmiakError:
            if not self._token:
                raise
        return self._token

    def renew(self) -> bool:
        """After the API has refused them: whether there may be others."""
        self._until = 0.0
        return bool(self._access.plugin or self._access.token_file)

    def tls(self) -> ssl.SSLContext | None:
        """None for an API without TLS."""
        if not self._access.server.startswith("https://"):
            return None
        if self._access.plugin and time.time() >= self._until:
            self._ask(self._access)
        if self._context is None:
            try:
                self._context = self._made(self._access)
            except (ssl.SSLError, binascii.Error, ValueError, OSError) as error:
                why = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
                raise UmiakError.of(
                    "UM-SUBMIT-181",
                    f"certificate or key of the kubeconfig can't be used: context {self._access.context}",
                    why=str(why),
                    hint="download the kubeconfig again",
                ) from None
        return self._context

    def _made(self, access: KubeAccess) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if access.is_unverified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif access.ca_data:
            context.load_verify_locations(cadata=base64.b64decode(access.ca_data).decode())
        elif access.ca_file:
            context.load_verify_locations(cafile=access.ca_file)
        cert, key = self._given.get("cert", "").encode(), self._given.get("key", "").encode()
        if not cert and (access.cert_data or access.cert_file):
            cert = base64.b64decode(access.cert_data) if access.cert_data else _bytes_of(access.cert_file)
            secret = access.secrets.get("key_data", "")
            key = base64.b64decode(secret) if secret else _bytes_of(access.key_file)
        if cert:
            with _in_memory(cert + b"\n" + key) as path:
                context.load_cert_chain(path)
        return context

    def _ask(self, access: KubeAccess) -> None:
        plugin = access.plugin
        assert plugin is not None
        spec: JsonObject = {"interactive": False}
        if plugin.wants_cluster:
            cluster = {"server": access.server, "certificate-authority-data": access.ca_data}
            spec["cluster"] = {key: text for key, text in cluster.items() if text}
        info = json.dumps({"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec})
        environ = {**self._environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": info}
        if os.sep in plugin.command:
            trusted_files.check(plugin.command, self._environ, "program of the kubeconfig")
        hint = plugin.hint or f"try it by hand: {plugin.command} {' '.join(plugin.arguments)}"
        try:
            done = subprocess.run(
                [plugin.command, *plugin.arguments],
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PLUGIN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = error.strerror if isinstance(error, OSError) else f"it took longer than {PLUGIN_S:g} s"
            raise _no_credentials(plugin.command, why, hint) from None
        if done.returncode:
            last = one_line(done.stderr.decode(errors="replace").strip().rpartition("\n")[2], 300)
            raise _no_credentials(plugin.command, f"exit status {done.returncode}: {last}", hint)
        try:
            status = json.loads(done.stdout)["status"]
            given = {
                "token": status.get("token"),
                "cert": status.get("clientCertificateData"),
                "key": status.get("clientKeyData"),
            }
            self._given = Secrets({name: str(text) for name, text in given.items() if text})
            ends = status.get("expirationTimestamp")
            self._until = seconds_of(ends) - SPARE_S if ends else float("inf")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _no_credentials(plugin.command, "what it printed is no ExecCredential", hint) from None
        self._context = None


def _bytes_of(path: str) -> bytes:
    if not path:
        raise ValueError("there is a certificate and no key")
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A file that only this process has, since Python takes certificates from files alone."""
    fd = os.memfd_create("umiak-kube", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _no_credentials(command: str, why: str | None, hint: str) -> UmiakError:
    what = f"the kubeconfig's plug-in gave no credentials: {one_line(command)}"
    return UmiakError.refused("UM-SUBMIT-181", what, why=why, hint=hint)

"""What the flags of torchrun mean: its settings in umiak's and Paddle's terms. A decider.

    translated(parsed, findings)               the command line with torchrun's flags rewritten to those that mean the same
    with_torchrun(made, parsed, findings)      the options, and what only torchrun's flags can say on top

A command line that has one of torchrun's own flags, or a PET_ variable beside it, is read with torchrun's defaults: one
node, one worker on it, no restarts, Python for every program that is no module, everybody's output on the console,
proxies left alone. Flags that both launchers have (``--nnodes``, ``--nproc-per-node``) do not change the defaults.

Which port is for what: torchrun's static backend has one, ``--master-port``, where the agent of node 0 keeps a store
for the workers too. With umiak the first worker opens that store, at that port, and the launchers meet at another one
(`rendezvous_port`). With c10d the endpoint is where launchers meet, and the store gets a free port.
"""

from __future__ import annotations

from umiak.contracts.setting import SIGNALS
from umiak.core.cluster import join_host_port, node_range, split_host_port
from umiak.core.value import replace
from umiak.launch.command_line import addresses, torchrun_console
from umiak.launch.options import ProgramStart
from umiak.schema.flags import FlagOrigin, FlagSource, Setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.launch.options import LaunchOptions
    from umiak.schema.flags import FlagFindings, Parsed, Value

STATIC_PORT = 29500
C10D_PORT = 29400
PORT_STEP = 10_000
SAME = {"local_addr": "host", "rdzv_id": "job_id", "max_restarts": "max_restart", "shutdown_timeout": "grace"}
"""Flags that are another name for one of ours, with its name."""
MEETING = ("rdzv_backend", "rdzv_endpoint", "master_addr", "master_port", "node_rank", "rdzv_id")
OF_ONE_NODE = ("master_addr", "node_rank", "local_addr", "rdzv_endpoint")
"""Flags that say something else on each node, or are said again in the command for the others."""
WITHOUT_EFFECT = (
    "read_timeout",
    "close_timeout",
    "heartbeat_timeout",
    "etcd_prefix",
    "cas_backoff_max_seconds",
    "rank",
)
ETCD_SECURITY = ("ssl_cert", "ssl_cert_key", "ca_cert", "cert", "key", "cacert")
KEEP_ALIVE = {"keep_alive_interval": 5.0, "keep_alive_max_attempt": 3.0}
MARK = "TORCHELASTIC_RUN_ID"


def is_torchruns(parsed: Parsed) -> bool:
    """Whether this command line is one of torchrun's: it has a flag or variable that only torchrun knows."""
    return any(
        setting.said
        and (
            setting.flag.origin is FlagOrigin.TORCHRUN
            or setting.said_as.startswith("PET_")
            or (setting.flag.name == "tee" and torchrun_console.is_torchruns(setting.text))
        )
        for setting in parsed.settings.values()
    )


def rendezvous_port(store_port: int) -> int:
    """Where the launchers meet whose first worker opens a store at this port.

    The neighbouring port would not do: people number the ports of several jobs on a host upwards.
    """
    return store_port - PORT_STEP if store_port >= 2 * PORT_STEP else store_port + PORT_STEP


def outer_variables(environ: Mapping[str, str], *, is_worker: bool) -> tuple[str, ...]:
    """The PET_ variables that are not meant for this launch: inside a worker they are the outer launcher's."""
    if not is_worker and not environ.get(MARK):
        return ()
    return tuple(name for name in environ if name.startswith("PET_"))


def translated(parsed: Parsed, findings: FlagFindings) -> Parsed:
    """The same command line without torchrun's own words, as far as there are others for them."""
    if not is_torchruns(parsed):
        return parsed
    return _Translation(parsed, findings).run()


def with_torchrun(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> LaunchOptions:
    """The options, with what only torchrun's flags can say. ``parsed`` may be translated or not."""
    tee, tee_except = torchrun_console.shown(parsed, findings, torchruns=is_torchruns(parsed))
    made = replace(made, tee=tee, tee_except=tee_except)
    if made.workers_word == "cpu":
        made = replace(made, devices_shared=True)
    if not is_torchruns(parsed):
        return made
    _tell_ignored(parsed, findings)
    _check_words(made, findings)
    is_static = parsed.text("rdzv_backend") == "static" and not parsed.truth("standalone")
    alone = made.most_nodes == 1
    lists = made.node_hosts or made.server_endpoints or made.trainer_endpoints
    return replace(
        made,
        nodes_said=made.nodes_said or not lists,
        topology="none" if alone and made.topology is None and not made.check else made.topology,
        is_module=made.is_module or parsed.truth("module"),
        runner=_runner(made, parsed, findings),
        rank_leads=is_static,
        is_host=_conf_truth(parsed, "is_host"),
        store_port=_store_port(parsed, alone=alone) if is_static else None,
        devices_shared=True,
        role_name=parsed.text("role") or "default",
        signals=_signals(parsed, findings),
        keep_proxy=True if not parsed.said("keep_proxy") else made.keep_proxy,
    )


class _Translation:
    """One command line on its way from torchrun's words to ours."""

    def __init__(self, parsed: Parsed, findings: FlagFindings) -> None:
        self.parsed = parsed
        self.findings = findings
        self.settings = dict(parsed.settings)

    def run(self) -> Parsed:
        for theirs, ours in SAME.items():
            self._same(theirs, ours)
        self._same("shutdown_timeout", "failure_grace")
        self._default("nproc_per_node", 1)
        self._default("max_restart", 0)
        self._configuration()
        if self.parsed.truth("standalone"):
            self._standalone()
        else:
            self._discovery()
        return replace(self.parsed, settings=self.settings)

    def _same(self, theirs: str, ours: str) -> None:
        """Say in our word what was said in theirs;
        a contradiction is a problem, or a note where the environment says it.
        """
        setting, own = self.parsed[theirs], self.parsed[ours]
        if not setting.said:
            return
        if own.said and str(own.value) != str(setting.value):
            if own.source is setting.source:
                self.findings.problem(
                    "UM-LAUNCH-160",
                    f"two values for one thing: {own.spoken} and {setting.spoken}",
                    why=f"--{theirs} is torchrun's name for --{ours}",
                    hint=f"leave out {setting.said_as}",
                )
                return
            first, other = (own, setting) if own.source is FlagSource.COMMAND else (setting, own)
            self.findings.note(f"{first.spoken} is used; the environment says {other.spoken}")
        if not own.said or setting.source is FlagSource.COMMAND:
            self._say(ours, setting.value, setting)

    def _default(self, ours: str, value: Value) -> None:
        if not self.settings[ours].said:
            self.settings[ours] = Setting(flag=self.settings[ours].flag, value=value)

    def _say(self, ours: str, value: Value, by: Setting) -> None:
        flag = self.settings[ours].flag
        self.settings[ours] = Setting(flag=flag, value=value, source=by.source, said_as=by.said_as, text=by.text)

    # ---- how nodes meet

    def _standalone(self) -> None:
        nodes = self.parsed["nnodes"]
        if nodes.said and nodes.text.strip() not in ("1", "1:1"):
            self.findings.problem(
                "UM-LAUNCH-161",
                f"{self.parsed['standalone'].said_as} is for one node: {nodes.spoken}",
                hint="leave out --standalone, and say where the nodes meet: --rdzv_backend c10d --rdzv_endpoint HOST:29400",
            )
        for name in MEETING:
            if self.parsed.said(name):
                self.findings.note(f"{self.parsed[name].spoken} is not used with --standalone")
        self.settings["job_id"] = self.parsed["job_id"]

    def _discovery(self) -> None:
        parsed, backend = self.parsed, self.parsed.text("rdzv_backend")
        if backend != "static":
            for name in ("node_rank", "master_addr", "master_port"):
                if parsed.said(name):
                    self.findings.note(
                        f"{parsed[name].spoken} is not used, as with torchrun: it belongs to the static backend, "
                        f"and {parsed['rdzv_backend'].spoken} is said"
                        + ("; --rank is used" if name == "node_rank" else "")
                    )
        else:
            self._same("node_rank", "rank")
        if not self._is_for_several():
            return  # nobody is met, also not at the localhost:0 that torchrun writes for one node
        text, by = self._endpoint(backend)
        if not text or by is None:
            return
        own = parsed["master"]
        if own.said and own.source is by.source is FlagSource.COMMAND:
            self.findings.problem(
                "UM-LAUNCH-160",
                f"two ways for the nodes to meet: {own.spoken} and {by.spoken}",
                hint=f"leave out {by.said_as} or {own.said_as}",
            )
        elif own.said and by.source is FlagSource.ENVIRONMENT:
            self.findings.note(f"{own.spoken} is used; the environment says {by.spoken}")
        else:
            self._say("master", text, by)

    def _is_for_several(self) -> bool:
        try:
            return node_range(self.settings["nnodes"].text or "1")[1] > 1 or self.parsed.truth("check")
        except ValueError:
            return False  # which is told where the flag is read

    def _endpoint(self, backend: str) -> tuple[str, Setting | None]:
        """Where the launchers meet, and the setting that says so."""
        endpoint = self.parsed["rdzv_endpoint"]
        if backend == "static":
            return self._static(endpoint)
        if backend == "c10d":
            default, by = f"localhost:{C10D_PORT}", endpoint if endpoint.said else self.parsed["rdzv_backend"]
            return self._with_port(endpoint.text if endpoint.said else default, C10D_PORT, by), by
        if not endpoint.said:
            self.findings.problem(
                "UM-LAUNCH-162",
                f"no etcd is named: {self.parsed['rdzv_backend'].spoken}",
                hint="say where it is: --rdzv_endpoint HOST:2379",
            )
            return "", None
        return f"etcd://{endpoint.text.removeprefix('http://').removeprefix('etcd://')}", endpoint

    def _static(self, endpoint: Setting) -> tuple[str, Setting | None]:
        if endpoint.said:
            host_and_port = self._with_port(endpoint.text, STATIC_PORT, endpoint)
            if not host_and_port:
                return "", None
            host, port = split_host_port(host_and_port)
            return join_host_port(host, rendezvous_port(port or STATIC_PORT)), endpoint
        address = self.parsed["master_addr"]
        if not address.said:
            return "", None
        store_port = self.parsed.number("master_port") or STATIC_PORT
        try:
            return join_host_port(addresses.host(address.text), rendezvous_port(store_port)), address
        except ValueError as error:
            self.findings.problem("UM-LAUNCH-162", f"{error}: {address.spoken}", hint=ENDPOINT_HINT)
            return "", None

    def _with_port(self, text: str, default_port: int, by: Setting) -> str:
        try:
            return addresses.endpoint(text, default_port=default_port)
        except ValueError as error:
            self.findings.problem("UM-LAUNCH-162", f"{error}: {by.spoken}", hint=ENDPOINT_HINT)
            return ""

    # ---- --rdzv-conf

    def _configuration(self) -> None:
        setting, configuration = self.parsed["rdzv_conf"], _configuration(self.parsed)
        if configuration is None:
            self.findings.problem(
                "UM-LAUNCH-163",
                f"expected settings such as join_timeout=60, got {setting.spoken}",
                hint="write --rdzv_conf join_timeout=600,last_call_timeout=30",
            )
            return
        backend = self.parsed.text("rdzv_backend")
        for key, text in configuration.items():
            if key in ("join_timeout", "timeout"):
                self._seconds("join_timeout", key, text)
            elif key == "last_call_timeout":
                self._seconds("elastic_timeout", key, text)
            elif key in KEEP_ALIVE or key == "is_host":
                pass  # read as a whole below, and by with_torchrun
            elif (key, text) in (("store_type", "tcp"), ("protocol", "http")):
                pass  # the only one that umiak has
            elif key in ("store_type", "protocol", *ETCD_SECURITY):
                self.findings.problem(
                    "UM-LAUNCH-164",
                    f"not supported: {key}={text} in {setting.said_as}",
                    why="launchers meet over plain TCP, or in an etcd that is reached by HTTP; a token keeps strangers out",
                    hint="leave it out, and set UMIAK_TOKEN on every node",
                )
            else:
                known = "" if key in WITHOUT_EFFECT else f", and torchrun's {backend} backend may not know it either"
                self.findings.note(f"{key}={text} in {setting.said_as} changes nothing here{known}")
        if configuration.keys() & KEEP_ALIVE.keys():
            product = 1.0
            for key, default in KEEP_ALIVE.items():
                product *= self._number(key, configuration[key]) if key in configuration else default
            if product and not self.parsed.said("heartbeat_timeout"):
                self._say("heartbeat_timeout", product, setting)

    def _seconds(self, ours: str, key: str, text: str) -> None:
        if self.parsed.said(ours):
            self.findings.note(f"{self.parsed[ours].spoken} is used, not {key}={text}")
            return
        number = self._number(key, text)
        if number:
            self._say(ours, number, self.parsed["rdzv_conf"])

    def _number(self, key: str, text: str) -> float:
        """A number above 0; otherwise 0, and a problem is told."""
        try:
            number = float(text) if text.isascii() and text.replace(".", "", 1).isdecimal() else 0.0
        except ValueError:
            number = 0.0
        if not number:
            self.findings.problem(
                "UM-LAUNCH-163",
                f"expected a number above 0, got {key}={text} in {self.parsed['rdzv_conf'].said_as}",
                hint=f"write {key}=30",
            )
        return number


ENDPOINT_HINT = "write --rdzv_endpoint 10.0.0.1:29400, or --master_addr 10.0.0.1 --master_port 29500"


def _configuration(parsed: Parsed) -> dict[str, str] | None:
    """The settings of ``--rdzv-conf``; ``None`` if that is not what they are."""
    settings: dict[str, str] = {}
    for item in filter(None, parsed.text("rdzv_conf").split(",")):
        key, _, text = item.partition("=")
        if not key.strip() or not text.strip():
            return None
        settings[key.strip()] = text.strip()
    return settings


def _conf_truth(parsed: Parsed, key: str) -> bool | None:
    text = (_configuration(parsed) or {}).get(key, "").lower()
    return None if not text else text in ("1", "true", "t", "yes", "y")


def _store_port(parsed: Parsed, *, alone: bool) -> int | None:
    """The port that was typed for the store, wherever it was typed."""
    if parsed.said("rdzv_endpoint"):
        try:
            return split_host_port(parsed.text("rdzv_endpoint"))[1] or None
        except ValueError:
            return None
    if parsed.said("master_port"):
        return parsed.number("master_port")
    return STATIC_PORT if parsed.said("master_addr") and not alone else None


def _runner(options: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> ProgramStart:
    if parsed.truth("run_path") or not parsed.truth("no_python"):
        return ProgramStart.PYTHON
    if options.is_module or parsed.truth("module"):
        findings.problem(
            "UM-LAUNCH-165",
            f"a module can't be run without Python: -m and {parsed['no_python'].spoken}",
            hint=f"leave out {parsed['no_python'].said_as}",
        )
    return ProgramStart.DIRECT


def _signals(parsed: Parsed, findings: FlagFindings) -> str:
    setting = parsed["signals_to_handle"]
    asked = [name.strip() for name in parsed.text("signals_to_handle").split(",") if name.strip()]
    others = [name for name in asked if name not in SIGNALS.split(",")]
    if others:
        findings.problem(
            "UM-LAUNCH-166",
            f"not a signal that ends a job: {', '.join(others)} in {setting.said_as}",
            why="SIGUSR1 and SIGUSR2 are passed on to workers that have a handler for them, and the job goes on",
            hint=f"leave out {setting.said_as}, or let the scheduler send SIGTERM",
        )
    left_out = [name for name in SIGNALS.split(",") if name not in asked]
    if setting.said and left_out:
        findings.note(f"{', '.join(left_out)} ends the job too, although {setting.spoken} leaves it out")
    return ",".join(asked) or SIGNALS


def _check_words(options: LaunchOptions, findings: FlagFindings) -> None:
    """torchrun puts the local rank into the arguments of the program; here it stays in the environment."""
    for word in options.program[1:]:
        if "${local_rank}" in word:
            findings.problem(
                "UM-LAUNCH-167",
                f"torchrun's macro is not replaced: {word}",
                hint="read LOCAL_RANK from the environment in the program",
            )


def _tell_ignored(parsed: Parsed, findings: FlagFindings) -> None:
    for setting in parsed.settings.values():
        if setting.flag.ignored and setting.said and setting.value != setting.flag.default:
            findings.note(f"{setting.spoken} changes nothing: {setting.flag.ignored}")

"""`umiak launch` from its options to its exit status: puts the parts together and runs the agent. A program.

    options -> platforms.detect -> plan -> ports, listener, logs -> Agent.run()

What is imported here is on the way of every launch, so modules that only some launches need are imported where they
are needed: hmac with a token, etcd with etcd, the preflight with ``--check``.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import time

from umiak import platforms
from umiak.adapters import devices as device_files
from umiak.adapters import frames, hostinfo, own_modules, process, watchdog
from umiak.adapters.identity import SUPERVISOR, ProcessIdentity
from umiak.adapters.loop import Loop
from umiak.adapters.ports import HeldPorts, listener_of
from umiak.contracts import devices
from umiak.contracts.start import TOKEN, TOKEN_FILE
from umiak.core.cluster import join_host_port, split_host_port
from umiak.core.names import is_loopback
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import from_fields, replace
from umiak.launch import job_token, supervisor, worker_program
from umiak.launch.agent import Agent
from umiak.launch.events import Discovery, NodeSetting
from umiak.launch.journal import Journal
from umiak.launch.links import handshake, link
from umiak.launch.links.unknown_peers import room_for
from umiak.launch.plan import LaunchPlan, Local, plan
from umiak.launch.protocol import Offer
from umiak.launch.report_writer import ReportWriter
from umiak.launch.reports import logfiles, logs, words
from umiak.launch.reports.logfiles import Access
from umiak.launch.reports.output import LauncherOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import NoReturn

    from umiak.core.cluster import Placement
    from umiak.core.devices import Devices
    from umiak.launch.links.etcd_election import Election
    from umiak.launch.options import LaunchOptions
    from umiak.launch.preflight.check import Check

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST_LOOK_UP_S = 120.0
"""What a name server that does not answer may cost while no worker runs: look-ups block this process."""
LONGEST_END_S = 15.0
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS)
LEAST_DESCRIPTORS, RESERVE = 16, 4
BEATS = 10
"""How many signs of life the watchdog is given in one heartbeat timeout; it waits for half of them."""


def run(options: LaunchOptions, notes: tuple[str, ...], environ: Mapping[str, str]) -> int:
    """Run this node's part of the job; the exit status."""
    try:
        _close_all(_open_some(LEAST_DESCRIPTORS))
    except OSError as error:
        _report(words.exhausted(error.strerror or str(error)))
        return Exit.REFUSED
    _flush()  # else the other half would write it once more
    try:
        guarded = watchdog.guard(options.heartbeat_timeout_s / 2, start_s=LONGEST_LOOK_UP_S)
    except watchdog.Unresponsive as error:
        _report(words.unresponsive(error.silent_s, options.heartbeat_timeout_s))
        return Exit.JOB_FAILED
    except watchdog.Killed as error:
        _report(words.launcher_killed(error.number))
        return 128 + error.number
    if not isinstance(guarded, int):
        _work(options, notes, environ, guarded)
    return guarded


def _work(
    options: LaunchOptions, notes: tuple[str, ...], environ: Mapping[str, str], pulse: watchdog.Pulse
) -> NoReturn:
    """The half of the launcher that does the work.
    It ends here: its caller waits in the other half, and goes on there.
    """
    status: int = Exit.OUR_BUG
    try:
        status = _Launch(options, notes, environ, pulse).run()
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except UmiakError as error:
        status = error.exit_status
        for problem in error.problems:
            _report(problem)
    except Exception as error:  # noqa: BLE001 - the last line of defence
        from umiak.adapters.version import bug_report

        sys.stderr.write("".join(f"{line}\n" for line in bug_report(error)))
    finally:
        _flush()
        os._exit(status)


def _flush() -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # closed, or nobody reads it


class _Launch:
    """One launch, from what was asked to the end."""

    def __init__(
        self, options: LaunchOptions, notes: tuple[str, ...], environ: Mapping[str, str], pulse: watchdog.Pulse
    ) -> None:
        self.pulse = pulse
        self.options = options
        self.notes = notes
        self.environ = environ
        self.loop = Loop()
        self.console = logs.Console(1, environ, self.loop.on_writable)
        output = LauncherOutput
        self.check: Check | None = None
        if options.check:
            from umiak.launch.preflight import check

            self.check, output = check.Check(options), check.CheckOutput
            self.options = self.check.options
        self.output = output(logs.Console(2, environ, self.loop.on_writable), options.log_level)
        self.name = "".join(LETTERS[byte % 26] for byte in os.urandom(6))
        self.generated_token: job_token.GeneratedToken | None = None
        self._reserve = _open_some(RESERVE)

    def _give_back_reserve(self) -> None:
        """Ending all workers needs a look at every process, and that takes a descriptor or two."""
        reserve, self._reserve = self._reserve, []
        _close_all(reserve)

    def run(self) -> int:
        try:
            return self._run()
        except UmiakError as error:
            self.output.problems(error.problems)
            return error.exit_status
        except OSError as error:
            self._give_back_reserve()
            if error.errno not in EXHAUSTED:
                raise
            self.output.problems([words.exhausted(error.strerror or str(error))])
            return Exit.REFUSED
        finally:
            self._give_back_reserve()
            process.kill_descendants(meanwhile=lambda: self.pulse.beat(LONGEST_END_S))
            if self.generated_token:
                job_token.forget(self.generated_token)

    def _run(self) -> int:
        options = self.options
        open_files = process.raise_open_files()
        if not self.check:
            worker_program.check(options, self.environ)
        if not options.as_json:
            self.output.configuration(options.shown)
        for note in self.notes:
            self.output.say(note, "WARNING")
        placement = self._placement()
        devices = self._devices()
        self.plan = self._with_reachable_host(plan(options, placement, self._local(placement, devices)))
        if self.check:
            self.plan = self.check.plan(self.plan)
        devices = self._shared(devices)
        self._check_workers(devices)
        access = worker_program.log_access(options)
        claimed = worker_program.claim_log_dir(options, access, own_name=self._own_name(), run=self.name)
        log_dir, self._log_lock = claimed.path, claimed.lock
        if claimed.note:
            self.output.say(claimed.note, "WARNING")
        token = job_token.read(self.environ)
        listener, token = self._listener(token)
        held = HeldPorts()
        held.hold(self.plan.ports, self.plan.port_count, last=self.plan.own_store_port)
        setting = self._setting(held, listener)
        heartbeats = link.Heartbeats(self.loop, self.plan.terms.heartbeat_timeout_s)
        journal = Journal(os.path.join(log_dir, logfiles.JOURNAL), access)
        journal.begin(self.name, time.time(), setting)
        workers = self._supervisor(setting, log_dir, access, devices, token)
        agent = Agent(
            self.loop,
            plan=self.plan,
            setting=setting,
            supervisor=workers,
            held=held,
            journal=journal,
            reports=ReportWriter(log_dir, access, setting),
            output=self.output,
            heartbeats=heartbeats,
            listener=self._link_listener(heartbeats, listener, token, open_files=open_files) if listener else None,
            election=self._election(),
            token=token,
            supervised_by=ProcessIdentity.from_words(self.environ.get(SUPERVISOR, "")),
        )
        self._take_signals(agent)
        self.pulse.least_allowed_s = self.plan.patience_s
        self._beat()
        gc.freeze()
        gc.enable()
        status = agent.run()
        self.pulse.beat(LONGEST_END_S)
        workers.close()
        journal.close()
        held.close()
        self.console.drain(1.0)
        self.output.drain(1.0)
        return self.check.conclude(status, self.output) if self.check else status

    def _beat(self) -> None:
        """Show the watchdog that the loop turns."""
        self.pulse.beat()
        self.loop.after(self.plan.terms.heartbeat_timeout_s / BEATS, self._beat)

    def _supervisor(
        self, setting: NodeSetting, log_dir: str, access: Access, found: Devices | None, token: bytes | None
    ) -> supervisor.Supervisor:
        command = None
        if self.check:
            command = self.check.command(setting.offer, found, log_dir=log_dir, has_token=token is not None)
        program = worker_program.program(
            self.options,
            self.plan,
            self.environ,
            self.output,
            command=command,
            log_dir=log_dir,
            access=access,
            run=self.name,
            devices=found,
            token=token,
        )
        workers = supervisor.Supervisor(self.loop, program, self.console)
        workers.on_progress = self.pulse.beat
        hostinfo.before_look_up = lambda: self.pulse.beat(0.0 if workers.pids else LONGEST_LOOK_UP_S)
        return workers

    # ---- where are we, what is there

    def _placement(self) -> Placement | None:
        placement = platforms.detect(self.environ, only=self.options.topology)
        if placement:
            rank = "" if placement.rank is None else f", node {placement.rank}"
            count = "" if placement.nodes is None else f" of {placement.nodes}"
            self.output.say(f"platform: {placement.platform}{rank}{count} ({placement.reason})")
        return placement

    def _devices(self) -> Devices | None:
        found = device_files.find(self.environ)
        return devices.choose(found, self.options.devices) if self.options.devices else found

    def _shared(self, found: Devices | None) -> Devices | None:
        """The devices to deal out: none where more workers than devices were asked for in torchrun's words."""
        workers = self.plan.trainers
        if not self.options.devices_shared or found is None or workers <= len(found.used):
            return found
        text = f"{workers} workers share {len(found.used)} {found.kind.value} devices: none is given one of its own"
        self.output.say(text, "WARNING")
        return None

    def _check_workers(self, found: Devices | None) -> None:
        if self.options.devices or not self.plan.terms.mode.has_servers:
            devices.check_workers(found, self.plan.trainers)
            idle = devices.idle(found, self.plan.trainers)
            if idle:
                self.output.say(f"devices {', '.join(idle)} stay idle: {self.plan.trainers} workers", "WARNING")

    def _local(self, placement: Placement | None, found: Devices | None) -> Local:
        """What this machine knows of itself; names are only looked up where it matters which machine they mean."""
        options = self.options
        names = {*options.node_hosts, *(_hosts_in(options.server_endpoints)), *(_hosts_in(options.trainer_endpoints))}
        if placement and placement.rank is None:
            names.update(placement.hosts)
        for master in (options.master, placement.master if placement else None):
            if master and not master.startswith("etcd://"):
                names.add(split_host_port(master)[0])
        own = Local(
            addresses=(),
            devices=devices.workers_for(found) if found else None,
            device_kind=found.kind if found else None,
            cpus=len(os.sched_getaffinity(0)),
        )
        if not names:
            return own
        resolved = {name: hostinfo.resolve(name) for name in names}
        return replace(own, addresses=hostinfo.addresses(), resolved=resolved)

    # ---- meeting the other nodes

    def _listener(self, token: bytes | None) -> tuple[socket.socket | None, bytes | None]:
        """Listen for other launchers, where there may be any. Fixes who leads at the master's address."""
        plan_ = self.plan
        if plan_.discovery is Discovery.ALONE:
            return None, token
        if plan_.must_lead and token is None:
            self.generated_token = job_token.generated_token(self.environ, self.name)
            token = self.generated_token.token
        loopback = all(is_loopback(host) for host in (plan_.master_host, *(host for host, _ in plan_.etcd)) if host)
        loopback = loopback and not plan_.must_lead
        if token is None and not loopback:
            if job_token.is_required(self.environ):
                raise job_token.missing()
            self.output.say(job_token.WARNING, "WARNING")
        # The address that the others will dial: localhost may be ::1 before it is 127.0.0.1.
        bind_to = hostinfo.resolve(plan_.master_host or "127.0.0.1") if loopback else ""
        listener: socket.socket | None = None
        if plan_.discovery is Discovery.ADDRESS and plan_.may_lead:
            try:
                listener = frames.listen(bind_to, plan_.master_port)
            except OSError as error:
                # Another launcher of this machine may be the master already;
                # if it is no launcher, dialling it will tell.
                program = listener_of(plan_.master_port)
                by = f" by {program}" if program else ""
                self.output.say(
                    f"port {plan_.master_port} is taken here{by} ({error.strerror}); if that is this job's master, this node joins it"
                )
        leads = listener is not None
        listener = listener or frames.listen(bind_to, 0)
        if plan_.must_lead:
            self.plan = replace(plan_, master_host=hostinfo.public_address(), master_port=listener.getsockname()[1])
            self.plan = replace(self.plan, host=self.plan.host or self.plan.master_host)
            _print_command(self.output, self.plan, self.options, self.environ, self.generated_token)
        elif plan_.discovery is Discovery.ADDRESS and plan_.may_lead and not plan_.host:
            # Also of one that joins a launcher of this machine:
            # the two meet on loopback, and nobody else reaches it there.
            self.plan = replace(plan_, host=_own_host(plan_))
        self.plan = replace(self.plan, may_lead=leads)
        return listener, token

    def _link_listener(
        self, heartbeats: link.Heartbeats, listener: socket.socket, token: bytes | None, *, open_files: int
    ) -> handshake.Listener:
        room = room_for(open_files=open_files, workers=self.plan.port_count, nodes=self.plan.terms.most)
        job_id = self.plan.terms.job_id
        return handshake.Listener(self.loop, heartbeats, listener, job_id=job_id, token=token, room=room)

    def _with_reachable_host(self, plan_: LaunchPlan) -> LaunchPlan:
        """Without a name that a list or the platform has for this node, where it means loopback here, as on Debian.

        A worker would bind that, and its peers would not reach it.
        The address on the route to the master is taken then.
        """
        host = plan_.host
        if plan_.discovery is Discovery.ALONE or host in ("", self.options.host) or is_loopback(host):
            return plan_
        return replace(plan_, host="") if is_loopback(hostinfo.resolve(host)) else plan_

    def _election(self) -> Election | None:
        if self.plan.discovery is not Discovery.ETCD:
            return None
        from umiak.launch.links.etcd_election import Election

        lease_s = max(2, round(self.plan.terms.heartbeat_timeout_s))
        return Election(self.loop, self.plan.etcd, self.plan.terms.job_id, lease_s=lease_s)

    def _setting(self, held: HeldPorts, listener: socket.socket | None) -> NodeSetting:
        plan_ = self.plan
        link_port = listener.getsockname()[1] if listener else 0
        offer = from_fields(Offer, plan_, name=self.name, ports=held.numbers, link_port=link_port)
        return from_fields(
            NodeSetting,
            plan_,
            offer=offer,
            leads=plan_.may_lead,
            callback_key=os.urandom(16).hex(),
            lineage=os.urandom(16).hex(),
        )

    def _own_name(self) -> str:
        """What a person would look for: this node's rank, where it is known from the start, and its host name."""
        host = os.uname().nodename
        return host if self.plan.rank is None else f"node{self.plan.rank}.{host}"

    def _take_signals(self, agent: Agent) -> None:
        for number in process.heeded((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)):
            self.loop.on_signal(number, agent.signalled)
        self.loop.on_signal(int(process.WATCHDOG_GONE), agent.watchdog_gone)
        for number in process.heeded((signal.SIGUSR1, signal.SIGUSR2)):
            self.loop.on_signal(number, agent.passed_on)
        self.loop.on_signal(signal.SIGCHLD, agent.child_ended)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        watchdog.open_for_signals()


def _own_host(plan_: LaunchPlan) -> str:
    """The address of the master's machine: the one that the others were given, if it is an address of this machine."""
    address = hostinfo.resolve(plan_.master_host)
    if address in hostinfo.addresses() and not address.startswith("127.0.1."):
        return address
    return "127.0.0.1" if address.startswith("127.0.0.") else hostinfo.public_address()


def _print_command(
    output: LauncherOutput,
    plan_: LaunchPlan,
    options: LaunchOptions,
    environ: Mapping[str, str],
    generated: job_token.GeneratedToken | None,
) -> None:
    """For the other nodes. It names the file of the token, where there is one, and never the token."""
    import shlex

    master = join_host_port(plan_.master_host, plan_.master_port)
    if own_modules.launcher_file():
        start = ["python", own_modules.launcher_file(), "launch"]
    else:
        start = ["umiak", "launch"] if os.path.basename(sys.argv[0]) == "umiak" else ["python", "-m", "umiak.launch"]
    command = shlex.join([*start, "--master", master, *options.program_argv])
    path = generated.shown if generated else ""
    if not path and not environ.get(TOKEN):
        path = shlex.quote(os.path.abspath(environ[TOKEN_FILE]))
    output.command_for_other_nodes(f"{TOKEN_FILE}={path} {command}" if path else command)
    if not path:
        output.say("the other nodes need the same UMIAK_TOKEN in their environment")
        return
    ends = " and is removed when this launcher ends" if generated else ""
    output.say(
        f"the token of this job is in {path}, which only you can read{ends}; "
        "copy it to nodes that do not share that directory"
    )


def _open_some(count: int) -> list[int]:
    """So many descriptors that nobody needs."""
    sockets: list[int] = []
    try:
        while len(sockets) < count:
            sockets.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        _close_all(sockets)
        raise
    return sockets


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _report(problem: Problem) -> None:
    """The watchdog's own words, if standard error takes them: a paused terminal must not keep it from ending."""
    import select

    text = "".join(f"{line}\n" for line in problem.lines()).encode()
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    if poll.poll(1000):
        try:
            os.write(2, text)
        except OSError:
            pass


def _hosts_in(endpoints: tuple[str, ...]) -> list[str]:
    return [split_host_port(endpoint)[0] for endpoint in endpoints]

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

from umiak import contracts, platforms
from umiak.adapters import devices as device_files
from umiak.adapters import frames, hostinfo, own_modules, process, watchdog
from umiak.adapters.identity import SUPERVISOR, ProcessIdentity
from umiak.adapters.loop import Loop
from umiak.adapters.ports import HeldPorts, listener_of
from umiak.contracts import devices
from umiak.contracts.start import TOKEN, TOKEN_FILE
from umiak.core.cluster import join_host_port, split_host_port
from umiak.core.devices import DeviceKind
from umiak.core.names import is_digits, is_loopback
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import from_fields, replace
from umiak.launch import job_token, supervisor
from umiak.launch.agent import Agent
from umiak.launch.events import Meeting, NodeSetting
from umiak.launch.journal import Journal
from umiak.launch.links import handshake, link
from umiak.launch.links.strangers import room_for
from umiak.launch.options import ProgramStart
from umiak.launch.plan import LaunchPlan, Local, plan
from umiak.launch.protocol import Offer
from umiak.launch.report_writer import ReportWriter
from umiak.launch.reports import logfiles, logs, words
from umiak.launch.reports.logfiles import Access
from umiak.launch.reports.talk import Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

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
    try:
        guarded = watchdog.guard(options.heartbeat_timeout_s / 2, start_s=LONGEST_LOOK_UP_S)
    except watchdog.Unresponsive as error:
        _report(words.unresponsive(error.silent_s, options.heartbeat_timeout_s))
        return Exit.JOB_FAILED
    except watchdog.Killed as error:
        _report(words.launcher_killed(error.number))
        return 128 + error.number
    if isinstance(guarded, int):
        return guarded
    return _Launch(options, notes, environ, guarded).run()


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
        talk = Talk
        self.check: Check | None = None
        if options.check:
            from umiak.launch.preflight import check

            self.check, talk = check.Check(options), check.CheckTalk
            self.options = self.check.options
        self.talk = talk(logs.Console(2, environ, self.loop.on_writable), options.log_level)
        self.name = "".join(LETTERS[byte % 26] for byte in os.urandom(6))
        self.made_up: job_token.MadeUp | None = None
        self._reserve = _open_some(RESERVE)

    def _give_back_reserve(self) -> None:
        """Ending all workers needs a look at every process, and that takes a descriptor or two."""
        reserve, self._reserve = self._reserve, []
        _close_all(reserve)

    def run(self) -> int:
        try:
            return self._run()
        except UmiakError as error:
            self.talk.problems(error.problems)
            return error.exit_status
        except OSError as error:
            self._give_back_reserve()
            if error.errno not in EXHAUSTED:
                raise
            self.talk.problems([words.exhausted(error.strerror or str(error))])
            return Exit.REFUSED
        finally:
            self._give_back_reserve()
            process.kill_descendants(meanwhile=lambda: self.pulse.beat(LONGEST_END_S))
            if self.made_up:
                job_token.forget(self.made_up)

    def _run(self) -> int:
        options = self.options
        open_files = process.raise_open_files()
        if not self.check:
            self._check_program()
        if not options.as_json:
            self.talk.configuration(options.shown)
        for note in self.notes:
            self.talk.say(note, "WARNING")
        placement = self._placement()
        found = self._devices()
        self.plan = self._with_reachable_host(plan(options, placement, self._local(placement, found)))
        if self.check:
            self.plan = self.check.plan(self.plan)
        found = self._shared(found)
        if self.options.devices or not self.plan.terms.mode.has_servers:
            devices.check_workers(found, self.plan.trainers)
            idle = devices.idle(found, self.plan.trainers)
            if idle:
                self.talk.say(f"devices {', '.join(idle)} stay idle: {self.plan.trainers} workers", "WARNING")
        access = self._log_access()
        log_dir = self._log_dir(access)
        token = job_token.read(self.environ)
        listener, token = self._listener(token)
        held = HeldPorts()
        if self.plan.ports:
            held.hold_these(self.plan.ports)
        else:
            held.hold_any(self.plan.port_count, last=self.plan.own_store_port)
        setting = self._setting(held, listener)
        heart = link.Heart(self.loop, self.plan.terms.heartbeat_timeout_s)
        journal = Journal(os.path.join(log_dir, logfiles.JOURNAL), access)
        journal.begin(self.name, time.time(), setting)
        keeper = supervisor.Supervisor(self.loop, self._program(log_dir, access, found, setting, token), self.console)
        keeper.on_progress = self.pulse.beat
        hostinfo.before_look_up = lambda: self.pulse.beat(0.0 if keeper.pids else LONGEST_LOOK_UP_S)
        door = None
        if listener:
            room = room_for(open_files=open_files, workers=self.plan.port_count, nodes=self.plan.terms.most)
            job_id = self.plan.terms.job_id
            door = handshake.Listener(self.loop, heart, listener, job_id=job_id, token=token, room=room)
        agent = Agent(
            self.loop,
            plan=self.plan,
            setting=setting,
            supervisor=keeper,
            held=held,
            journal=journal,
            reports=ReportWriter(log_dir, access, setting),
            talk=self.talk,
            heart=heart,
            listener=door,
            election=self._election(),
            token=token,
            supervised_by=ProcessIdentity.from_words(self.environ.get(SUPERVISOR, "")),
        )
        self._take_signals(agent)
        self._beat()
        gc.freeze()
        gc.enable()
        status = agent.run()
        self.pulse.beat(LONGEST_END_S)
        keeper.close()
        journal.close()
        held.close()
        self.console.drain(1.0)
        self.talk.drain(1.0)
        return self.check.conclude(status, self.talk) if self.check else status

    def _beat(self) -> None:
        """Show the watchdog that the loop turns."""
        self.pulse.beat()
        self.loop.after(self.plan.terms.heartbeat_timeout_s / BEATS, self._beat)

    # ---- where are we, what is there

    def _placement(self) -> Placement | None:
        placement = platforms.detect(self.environ, only=self.options.topology)
        if placement:
            rank = "" if placement.rank is None else f", node {placement.rank}"
            count = "" if placement.nodes is None else f" of {placement.nodes}"
            self.talk.say(f"platform: {placement.platform}{rank}{count} ({placement.reason})")
        return placement

    def _devices(self) -> Devices | None:
        found = device_files.find(self.environ)
        return devices.choose(found, self.options.devices) if self.options.devices else found

    def _shared(self, found: Devices | None) -> Devices | None:
        """The devices to deal out: none where more workers than devices were asked for in torchrun's words."""
        workers = self.plan.trainers
        if not self.options.devices_shared or found is None or workers <= len(found.used):
            return found
        told = f"{workers} workers share {len(found.used)} {found.kind.value} devices: none is given one of its own"
        self.talk.say(told, "WARNING")
        return None

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

    def _check_program(self) -> None:
        """What Python, or the kernel, would refuse on every node is refused before anything starts."""
        options = self.options
        script = options.program[0] if options.program else ""
        is_script = options.runner is ProgramStart.PYTHON or script.endswith((".py", ".pyxes"))
        if options.is_module or not script:
            return
        problem = None
        if os.path.isdir(script) and (is_script or not _is_on_path(script, self.environ)):
            inside = os.path.join(script, "train.py")
            problem = Problem(
                code="UM-LAUNCH-205",
                what=f"a directory, not a script: {script}",
                hint=f"name the script in it, as in `umiak launch {inside}`, or use -m for a package",
            )
        elif is_script and not os.path.isfile(script):
            problem = Problem(
                code="UM-LAUNCH-201",
                what=f"no such script: {script}",
                why=f"the working directory is {os.getcwd()}",
                hint="name it relative to the working directory, or use -m for a module",
            )
        elif is_script and not os.access(script, os.R_OK):
            problem = Problem(
                code="UM-LAUNCH-205",
                what=f"the script can't be read: {script}",
                why="this user may not read it",
                hint=f"`ls -l {script}` shows who may",
            )
        if problem:
            raise UmiakError(problem)

    # ---- meeting the other nodes

    def _listener(self, token: bytes | None) -> tuple[socket.socket | None, bytes | None]:
        """Listen for other launchers, where there may be any. Fixes who leads at the master's address."""
        plan_ = self.plan
        if plan_.meeting is Meeting.ALONE:
            return None, token
        if plan_.must_lead and token is None:
            self.made_up = job_token.made_up(self.environ, self.name)
            token = self.made_up.token
        loopback = all(is_loopback(host) for host in (plan_.master_host, *(host for host, _ in plan_.etcd)) if host)
        loopback = loopback and not plan_.must_lead
        if token is None and not loopback:
            if job_token.is_required(self.environ):
                raise job_token.missing()
            self.talk.say(job_token.WARNING, "WARNING")
        # The address that the others will dial: localhost may be ::1 before it is 127.0.0.1.
        bind_to = hostinfo.resolve(plan_.master_host or "127.0.0.1") if loopback else ""
        listener: socket.socket | None = None
        if plan_.meeting is Meeting.ADDRESS and plan_.may_lead:
            try:
                listener = frames.listen(bind_to, plan_.master_port)
            except OSError as error:
                # Another launcher of this machine may be the master already; if it is no launcher, dialling it will tell.
                program = listener_of(plan_.master_port)
                by = f" by {program}" if program else ""
                self.talk.say(
                    f"port {plan_.master_port} is taken here{by} ({error.strerror}); if that is this job's master, this node joins it"
                )
        leads = listener is not None
        listener = listener or frames.listen(bind_to, 0)
        if plan_.must_lead:
            self.plan = replace(plan_, master_host=hostinfo.public_address(), master_port=listener.getsockname()[1])
            self.plan = replace(self.plan, host=self.plan.host or self.plan.master_host)
            self._print_command()
        elif plan_.meeting is Meeting.ADDRESS and plan_.may_lead and not plan_.host:
            # Also of one that joins a launcher of this machine: the two meet on loopback, and nobody else reaches it there.
            self.plan = replace(plan_, host=self._own_host(plan_))
        self.plan = replace(self.plan, may_lead=leads)
        return listener, token

    def _with_reachable_host(self, plan_: LaunchPlan) -> LaunchPlan:
        """Without a name that a list or the platform has for this node, where it means loopback here, as on Debian.

        A worker would bind that, and its peers would not reach it. The address on the route to the master is taken then.
        """
        host = plan_.host
        if plan_.meeting is Meeting.ALONE or host in ("", self.options.host) or is_loopback(host):
            return plan_
        return replace(plan_, host="") if is_loopback(hostinfo.resolve(host)) else plan_

    @staticmethod
    def _own_host(plan_: LaunchPlan) -> str:
        """The address of the master's machine: the one that the others were given, if it is an address of this machine."""
        address = hostinfo.resolve(plan_.master_host)
        if address in hostinfo.addresses() and not address.startswith("127.0.1."):
            return address
        return "127.0.0.1" if address.startswith("127.0.0.") else hostinfo.public_address()

    def _print_command(self) -> None:
        """For the other nodes. It names the file of the token, where there is one, and never the token."""
        import shlex

        master = join_host_port(self.plan.master_host, self.plan.master_port)
        if own_modules.launcher_file():
            start = ["python", own_modules.launcher_file(), "launch"]
        else:
            start = (
                ["umiak", "launch"] if os.path.basename(sys.argv[0]) == "umiak" else ["python", "-m", "umiak.launch"]
            )
        command = shlex.join([*start, "--master", master, *self.options.program_argv])
        path = self.made_up.shown if self.made_up else ""
        if not path and not self.environ.get(TOKEN):
            path = shlex.quote(os.path.abspath(self.environ[TOKEN_FILE]))
        self.talk.command_for_other_nodes(f"{TOKEN_FILE}={path} {command}" if path else command)
        if not path:
            self.talk.say("the other nodes need the same UMIAK_TOKEN in their environment")
            return
        ends = " and is removed when this launcher ends" if self.made_up else ""
        self.talk.say(
            f"the token of this job is in {path}, which only you can read{ends}; "
            "copy it to nodes that do not share that directory"
        )

    def _election(self) -> Election | None:
        if self.plan.meeting is not Meeting.ETCD:
            return None
        from umiak.launch.links.etcd_election import Election

        lease_s = max(2, round(self.plan.terms.heartbeat_timeout_s))
        return Election(self.loop, self.plan.etcd, self.plan.terms.job_id, lease_s=lease_s)

    def _setting(self, held: HeldPorts, listener: socket.socket | None) -> NodeSetting:
        plan_ = self.plan
        link_port = listener.getsockname()[1] if listener else 0
        offer = from_fields(Offer, plan_, name=self.name, ports=held.numbers, link_port=link_port)
        return NodeSetting(
            terms=plan_.terms,
            offer=offer,
            meeting=plan_.meeting,
            leads=plan_.may_lead,
            master_host=plan_.master_host,
            master_port=plan_.master_port,
            callback_key=os.urandom(16).hex(),
            lineage=os.urandom(16).hex(),
        )

    # ---- the workers

    def _program(
        self, log_dir: str, access: Access, found: Devices | None, setting: NodeSetting, token: bytes | None
    ) -> supervisor.Program:
        options = self.options
        if self.check:
            offer = setting.offer
            command = self.check.command(offer, found, log_dir=log_dir, has_token=token is not None)
        else:
            command = supervisor.command_for(options.program, is_module=options.is_module, runner=options.runner)
        return supervisor.Program(
            command=command,
            environ=self._worker_environ(),
            setting=contracts.WorkerSetting(
                mode=self.plan.terms.mode,
                log_dir=log_dir,
                max_restarts=options.max_restart,
                with_gloo=options.with_gloo,
                gloo_port=options.gloo_port,
                devices=found,
                heter_device=options.heter_device,
                backend=options.backend,
                role_name=options.role_name,
                signals=options.signals,
            ),
            log_dir=log_dir,
            log_max_bytes=options.log_max_bytes,
            log_overwrite=options.log_overwrite,
            log_access=access,
            run=self.name,
            tee=options.tee,
            tee_except=options.tee_except,
            hang_timeout_s=options.hang_timeout_s,
            gpu_log=options.enable_gpu_log and found is not None and found.kind is DeviceKind.GPU,
            token=self._worker_token(token),
            fleet_from=self._fleet_from(),
        )

    def _worker_environ(self) -> dict[str, str]:
        """What workers inherit of this launcher's environment, before their own variables are laid over it."""
        hidden = contracts.proxies_in(self.environ)
        if not hidden or self.options.keep_proxy:
            return dict(self.environ)
        names = " and ".join(f"{name} (as {name}_original)" for name in hidden)
        self.talk.say(f"hidden from the workers: {names}; --keep_proxy leaves them")
        return contracts.without_proxies(self.environ)

    def _fleet_from(self) -> tuple[str, ...] | None:
        """Where workers find umiak for their calls of fleet; None where these stay Paddle's."""
        if self.check or self.options.no_compat or not self.plan.terms.mode.has_servers:
            return None
        self.talk.say(
            "parameter-server calls of paddle.distributed.fleet are umiak's in Python workers; --no_compat leaves them to Paddle"
        )
        return own_modules.directories()

    def _worker_token(self, token: bytes | None) -> str | None:
        """What parameter servers and their trainers prove to one another: the job's token, or on one node one of its own."""
        if self.check or not self.plan.terms.mode.has_servers:
            return None
        if token is None and self.plan.meeting is Meeting.ALONE:
            token = os.urandom(16).hex().encode()
        return None if token is None else os.fsdecode(token)

    def _log_dir(self, access: Access) -> str:
        path = os.path.abspath(self.options.log_dir)
        try:
            claimed = logfiles.claim(path, own_name=self._own_name(), run=self.name, access=access)
        except OSError as error:
            file = _file_in_the_way(path)
            what = f"the log directory can't be written: {path}"
            if file is not None:
                what = f"expected a directory for logs, got a file: {file}"
            raise UmiakError(
                Problem(
                    code="UM-LAUNCH-202",
                    what=what,
                    why=f"{error.filename}: {error.strerror}" if error.filename and file is None else error.strerror,
                    hint="choose another with --log_dir",
                ),
                exit_status=Exit.REFUSED,
            ) from None
        self._log_lock = claimed.lock
        if claimed.note:
            self.talk.say(claimed.note, "WARNING")
        return claimed.path

    def _own_name(self) -> str:
        """What a person would look for: this node's rank, where it is known from the start, and its host name."""
        host = os.uname().nodename
        return host if self.plan.rank is None else f"node{self.plan.rank}.{host}"

    def _log_access(self) -> Access:
        mode, name = self.options.log_mode, self.options.log_group
        if name is None:
            return Access() if mode is None else Access(mode=mode)
        import grp

        try:
            group = int(name) if is_digits(name) and len(name) < 10 else grp.getgrnam(name).gr_gid
        except KeyError:
            raise UmiakError(
                Problem(
                    code="UM-LAUNCH-316",
                    what=f"no such group: --log_group {name}",
                    hint="`getent group` lists the groups of this machine",
                )
            ) from None
        if os.geteuid() != 0 and group not in (os.getegid(), *os.getgroups()):
            raise UmiakError(
                Problem(
                    code="UM-LAUNCH-317",
                    what=f"the log files can't be given to this group: {name}",
                    why="the user who runs the launcher is not a member",
                    hint="`id` lists the groups that are possible",
                )
            )
        return Access(mode=0o640 if mode is None else mode, group=group)

    def _take_signals(self, agent: Agent) -> None:
        for number in process.heeded((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)):
            self.loop.on_signal(number, agent.signalled)
        self.loop.on_signal(int(process.WATCHDOG_GONE), agent.watchdog_gone)
        for number in process.heeded((signal.SIGUSR1, signal.SIGUSR2)):
            self.loop.on_signal(number, agent.passed_on)
        self.loop.on_signal(signal.SIGCHLD, agent.child_ended)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        watchdog.open_for_signals()


def _file_in_the_way(path: str) -> str | None:
    """What is no directory on the way to a directory, or in its place."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return None if os.path.isdir(path) else path


def _open_some(count: int) -> list[int]:
    """So many descriptors that nobody needs."""
    found: list[int] = []
    try:
        for _ in range(count):
            found.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401 - they are closed if one fails
    except OSError:
        _close_all(found)
        raise
    return found


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


def _is_on_path(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a program is found by this name alone: a directory called ``python`` hides no ``python``."""
    import shutil

    return "/" not in name and shutil.which(name, path=environ.get("PATH", os.defpath)) is not None


def _hosts_in(endpoints: tuple[str, ...]) -> list[str]:
    return [split_host_port(endpoint)[0] for endpoint in endpoints]

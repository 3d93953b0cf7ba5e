"""The backend `ssh`: a list of hosts. An adapter.

A submission goes in three exchanges with all hosts: each is looked at, and says what it lacks; each gets what it lacks
and the job, makes everything ready and holds it; all start. So a host that is down or full keeps the whole job from
starting, and is named, and no launcher that runs already keeps a busy host from starting the others.
"""

from __future__ import annotations

import os
import time

from umiak.adapters import trusted_files
from umiak.core.bundle import PRIVATE, Bundle, BundleFile
from umiak.core.job import FileSet, FrameworkName, Handle
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import replace
from umiak.submit.backend import FilesSent, OfflineCheck
from umiak.submit.backends.ssh import checks, plan, settings
from umiak.submit.backends.ssh.nodes import SshNodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from umiak.core.job import Job
    from umiak.core.status import JobStatus
    from umiak.submit.backend import LogLine, LogsWanted, PlaceCheck, Submission, SubmitContext
    from umiak.submit.backends.ssh.connections import Connections
    from umiak.submit.backends.ssh.joined import HostOutput
    from umiak.submit.backends.ssh.settings import SshHost, SshSettings
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.places import NamedPlace

NAME = "ssh"
NAMED = 8
"""So many hosts are named in a message."""


def make(place: NamedPlace, context: SubmitContext) -> SshBackend:
    """The entry point of this backend."""
    return SshBackend(place.name, read_settings(place, context), context)


def read_settings(place: NamedPlace, context: SubmitContext) -> SshSettings:
    """The settings of a place, with the hosts that the person's ssh config knows.
    UmiakError with everything that is wrong.
    """
    from umiak.schema.findings import Findings

    config_path = place.settings.get("config")
    path = getattr(config_path.node, "data", None) if config_path else None
    home = context.environ.get("HOME") or os.path.expanduser("~")
    config = os.path.join(context.directory, os.path.expanduser(str(path))) if path else f"{home}/.ssh/config"
    text = ""
    try:
        text = trusted_files.read_text(config, context.environ, "ssh config")
    except FileNotFoundError:
        config = "" if path is None else config
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UmiakError.of("UM-SUBMIT-100", f"the ssh config can't be read: {config}", why=why) from None
    findings = Findings()
    own_settings = settings.read(place.settings, place.name, findings, text, config=config)
    UmiakError.raise_any(findings.problems)
    for named in (own_settings.access.key, own_settings.access.known_hosts):
        if named:
            trusted_files.check(os.path.expanduser(named), context.environ)
    return own_settings


class SshBackend(OfflineCheck, FilesSent, SshNodes):
    """The hosts of one place."""

    def __init__(self, place: str, said: SshSettings, context: SubmitContext) -> None:
        self._place = place
        self.settings = said
        self._context = context
        self._opened: Connections | None = None
        self._unreachable_since: dict[str, float] = {}
        self._looked: tuple[Job, str, dict[str, checks.HostFacts]] | None = None
        """What hosts said when a job was checked, which is submitted next."""

    @property
    def connections(self) -> Connections:
        """Opened when first needed, and kept: a submission talks to each host several times."""
        if self._opened is None:
            from umiak.submit.backends.ssh.connections import Connections
            from umiak.submit.payload import launcher_file

            self._opened = Connections(self.settings, self._context.environ, launcher_file.find)
        return self._opened

    # ---- submitting

    def check(self, job: Job) -> list[Problem]:
        """Everything that is wrong with any host that the job would use."""
        if found := [*self.missing_variables(), *self.check_offline(job)]:
            return found
        files = _files(job, self._context.directory)
        rows = self._look_for(job, files)
        problems = [problem for _, problems, _ in rows for problem in problems]
        if not problems:
            facts = {host.label: facts for host, _, facts in rows if facts is not None}
            self._looked = job, files.manifest.digest if files else "", facts
        return problems

    def check_offline(self, job: Job) -> list[Problem]:
        """Without asking a host."""
        return [*checks.of_job(job, self.settings), *self.file_problems(job)]

    def missing_here(self, _: Job, /) -> list[Problem]:
        """Variables of passwords, and the package that talks to hosts."""
        from umiak.submit.backends.ssh import keys

        return [*self.missing_variables(), *keys.missing_package()]

    def files_sent(self, job: Job) -> FoundFiles | None:
        return _files(job, self._context.directory)

    def _look_for(
        self, job: Job, files: FoundFiles | None
    ) -> list[tuple[SshHost, list[Problem], checks.HostFacts | None]]:
        """`look_at` the hosts of a job, and at what must be known to plan it."""
        seats = plan.seats_of(job, self.settings.hosts)
        first, one_role = seats[0].host, job.roles[0]
        wanted = {
            "files": files.manifest.digest if files else "",
            "wants_devices": not job.mode.has_servers and not (one_role.workers or one_role.resource.devices),
            "env": dict(job.environment_of(one_role)),
        }
        return self.look_at(
            list(dict.fromkeys(seat.host for seat in seats)),
            job.framework,
            checks.LEAST_FREE_BYTES + (2 * files.manifest.size_bytes if files else 0),
            lambda host: {**wanted, "wants_port": host is first and len(seats) > 1},
        )

    def look_at(
        self,
        hosts: Sequence[SshHost],
        framework: FrameworkName = FrameworkName.NONE,
        needed: int = checks.LEAST_FREE_BYTES,
        more: Callable[[SshHost], Mapping[str, object]] = lambda _: {},
    ) -> list[tuple[SshHost, list[Problem], checks.HostFacts | None]]:
        """For each host what is wrong, and what it said; all are asked at once.
        ``more``: what else is asked of a host.
        """
        from umiak.submit.backends.ssh.connections import HostFailure

        wanted = "" if framework is FrameworkName.NONE else framework.value

        async def one(host: SshHost) -> checks.HostFacts:
            before = time.time()
            answer = await self.connections.asked(host, {"do": "check", "framework": wanted, **more(host)})
            after = time.time()
            return checks.facts_of(answer, (before + after) / 2, (after - before) / 2)

        rows: list[tuple[SshHost, list[Problem], checks.HostFacts | None]] = []
        for host, facts in zip(hosts, self.connections.each(hosts, one), strict=True):
            if isinstance(facts, HostFailure):
                rows.append((host, [facts.problem], None))
            else:
                rows.append((host, checks.of_host(host, facts, framework, needed), facts))
        return rows

    def examine(self) -> Iterator[PlaceCheck]:
        """Every host of the place: what is wrong with it, or what it has."""
        from umiak.submit.backend import PlaceCheck

        missing = self.missing_variables()
        yield from (PlaceCheck(text=each.what, problem=each) for each in missing)
        for host, problems, facts in self.look_at(self.settings.hosts) if not missing else ():
            yield from (PlaceCheck(text=each.what, problem=each) for each in problems)
            if facts is not None and not problems:
                free_gib = facts.free_bytes / (1 << 30)
                yield PlaceCheck(
                    text=f"{host.label}: Python {facts.python}, {facts.cpus} cores, {free_gib:.0f} GiB free"
                )

    def missing_variables(self) -> list[Problem]:
        """Of passwords and passphrases."""
        from umiak.submit.backends.ssh import keys

        return keys.unset_variables(self.settings.access, self._context.environ, f"place {self._place}: ")

    def render(self, job: Job, run_id: str) -> Bundle:
        """The plans of all hosts."""
        from umiak.contracts.start import TOKEN

        has_files = bool(_file_set(job))
        known = plan.KnownAtStart(files=plan.UNKNOWN_DIGEST if has_files else "")
        files = []
        labels = []
        for each in plan.plans_of(job, run_id, self.settings, known):
            labels.append(each.host.label)
            base = f"{each.host.label}:{self.settings.directory}/runs/{run_id}/{each.host.directory_name}"
            files.append(BundleFile(path=f"{base}/plan.json", text=each.plan.text(), mode=PRIVATE))
            files += [BundleFile(path=f"{base}/{name}", text=text, mode=PRIVATE) for name, text in each.texts.items()]
        sent = "the job's files (once per content hash) and " if has_files else ""
        names = ", ".join([TOKEN, *job.secrets])
        told = (
            f"over ssh, at once, to {', '.join(labels)}:\n"
            f"{self.settings.python} gets {sent}the launcher's file, unless they are there, writes the files above, "
            "and starts a supervisor\n"
            f"through standard input: {names} (values are not shown)\n"
        )
        return Bundle(
            files=tuple(files),
            requests=(told,),
        )

    def submit(self, submission: Submission) -> Handle:
        """Make all hosts ready, then start everywhere at once.
        What was started with this run id before is left alone.
        """
        from umiak.contracts.start import TOKEN
        from umiak.submit.backends.ssh.starting import JobStart

        job, run_id = submission.job, submission.run_id
        files = _files(job, self._context.directory)
        facts = self._facts(submission, files)
        start = JobStart(self.connections, self._place, run_id)
        if files and (lacking := [host for host, each in facts.items() if each.needs_files]):
            start.send_files(lacking, files)
        secrets = dict(submission.secrets)
        known = plan.KnownAtStart(
            files=files.manifest.digest if files else "",
            port=str(next(iter(facts.values())).port),
            devices=tuple(each.devices for each in facts.values()),
        )
        plans = plan.plans_of(job, run_id, self.settings, known)
        answers = start.hold(plans, secrets)
        earlier = next((each for each in answers if each["is_started"]), None)
        ready = [each for each, answer in zip(plans, answers, strict=True) if not answer["is_started"]]
        if earlier is not None and ready:  # the others join those that were started before
            secrets[TOKEN] = earlier["token"] or secrets[TOKEN]
            known = replace(known, master=earlier["master"])
            late = {each.host for each in ready}
            start.hold(
                [each for each in plan.plans_of(job, run_id, self.settings, known) if each.host in late], secrets
            )
        start.go([each.host for each in ready])
        return Handle(backend=NAME, place=self._place, id=run_id)

    def _facts(self, submission: Submission, found: FoundFiles | None) -> dict[SshHost, checks.HostFacts]:
        """What the hosts of a job said when it was checked, in the order of the list;
        they are asked now if it was not.
        """
        from umiak.submit.backend import AnswerLost

        job = submission.job
        looked, self._looked = self._looked, None
        hosts = list(dict.fromkeys(seat.host for seat in plan.seats_of(job, self.settings.hosts)))
        if looked and looked[0] == job and looked[1] == (found.manifest.digest if found else ""):
            return {host: looked[2][host.label] for host in hosts}
        rows = self._look_for(job, found)
        facts = {host: facts for host, _, facts in rows if facts is not None}
        if problems := [problem for _, problems, facts in rows if facts is None for problem in problems]:
            asked = Handle(backend=NAME, place=self._place, id=submission.run_id)
            if any(said.status for said, _ in self._ask_status([*facts], asked)):
                # Of a submission that is repeated: it must be completed later.
                raise AnswerLost(self._place, "; ".join(f"{each.what}: {each.why}" for each in problems))
            raise UmiakError(*problems, exit_status=Exit.REFUSED)
        return facts

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """What all hosts say, joined."""
        from umiak.submit.backends.ssh import joined

        return joined.status_of(self.said(handle))

    def said(self, handle: Handle) -> list[HostOutput]:
        """What each host of a run says. The first host of the place is in every run, and knows the others."""
        hosts = self.settings.hosts
        first = self._ask_status(hosts[:1], handle)
        machines = next((machines for _, machines in first if machines), [])
        rest = [each for each in hosts[1:] if not machines or each.label in machines]
        answers = [*first, *(self._ask_status(rest, handle) if rest else [])]
        machines = next((machines for _, machines in answers if machines), [])
        if not machines and not any(said.unreachable for said, _ in answers):
            raise UmiakError.of(
                "UM-SUBMIT-012",
                f"unknown run: {handle}",
                why=f"no host of {self._place} has it",
                hint="`umiak list` prints your runs; was it removed by `umiak hosts clean`?",
            )
        known = [said for said, _ in answers if not machines or said.label in machines]
        return [each for each in known if machines or each.unreachable]

    def _ask_status(self, hosts: Sequence[SshHost], handle: Handle) -> list[tuple[HostOutput, list[str]]]:
        from umiak.core.decode import decode
        from umiak.core.status import JobStatus
        from umiak.submit.backends.ssh.connections import HostFailure
        from umiak.submit.backends.ssh.joined import HostOutput

        answers = self.connections.ask(
            hosts, lambda host: {"do": "status", "run": handle.id, "host": host.directory_name}
        )
        outputs: list[tuple[HostOutput, list[str]]] = []
        for host, answer in zip(hosts, answers, strict=True):
            if isinstance(answer, HostFailure):
                why = answer.problem.what.partition(": ")[2]
                why = f"{why}: {answer.problem.why}" if answer.problem.why else why
                since = self._unreachable_since.setdefault(host.label, time.monotonic())
                is_long = time.monotonic() - since >= self.settings.lost_after_s
                outputs.append((HostOutput(label=host.label, unreachable=why, is_unreachable_long=is_long), []))
                continue
            self._unreachable_since.pop(host.label, None)
            status = decode(JobStatus, answer["status"]) if answer["status"] else None
            output = HostOutput(label=host.label, status=status, is_elastic=bool(answer["is_elastic"]))
            outputs.append((output, answer["machines"]))
        return outputs

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of all hosts as they come."""
        from umiak.submit.backends.ssh.following import Follower

        asked = self.said(handle)
        if not wanted.follow and all(each.unreachable for each in asked):
            why = "; ".join(f"{each.label}: {each.unreachable}" for each in asked[:NAMED])
            raise UmiakError.refused(
                "UM-SUBMIT-361",
                f"no host of {self._place} that has lines of the run can be reached",
                why=why,
                hint="are the hosts on, and is the network the right one? `umiak hosts check` asks each of them",
            )
        labels = {each.label for each in asked}
        follower = Follower(self.connections, handle.id, wanted, lost_after_s=self.settings.lost_after_s)
        yield from follower.lines([each for each in self.settings.hosts if each.label in labels])

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """On all hosts at once. Hosts that can't be reached are named: what runs there may still run."""
        from umiak.submit.backends.ssh.starting import cancel

        failures = cancel(self.connections, self._hosts_of(handle), handle.id, grace_s)
        if failures:
            problems = [
                replace(
                    each.problem,
                    what=f"not cancelled on {each.problem.what}",
                    hint="the other hosts are done; repeat `umiak cancel` when it can be reached",
                    code="UM-SUBMIT-117",
                )
                for each in failures
            ]
            raise UmiakError(*problems, exit_status=Exit.REFUSED)

    def _hosts_of(self, handle: Handle) -> list[SshHost]:
        labels = {each.label for each in self.said(handle)}
        return [each for each in self.settings.hosts if each.label in labels]

    def list(self) -> list[Handle]:
        """The runs that any reachable host has."""
        from umiak.submit.backends.ssh.connections import HostFailure

        answers = self.connections.ask(self.settings.hosts, lambda _: {"do": "list"})
        names = {name for each in answers if not isinstance(each, HostFailure) for name in each["runs"]}
        return [Handle(backend=NAME, place=self._place, id=name) for name in sorted(names)]


def _file_set(job: Job) -> FileSet | None:
    """What is sent: the job's files, or at least the scripts that its commands name."""
    if job.files:
        return job.files
    scripts = sorted(each for each in job.scripts if not os.path.isabs(each))
    return FileSet(root=".", include=tuple(scripts)) if scripts else None


def _files(job: Job, directory: str) -> FoundFiles | None:
    asked = _file_set(job)
    if asked is None:
        return None
    from umiak.submit.payload import file_set

    files = file_set.collect(asked, directory)
    names = {each.path for each in files.manifest.files}
    missing = [name for name in asked.include if name not in names] if asked is not job.files else []
    if missing:
        raise UmiakError(
            *(
                Problem(
                    code="UM-SUBMIT-020",
                    what=f"no such file here: {name}",
                    hint="paths count from the working directory",
                )
                for name in missing
            )
        )
    return files

"""Every command of `umiak`: one table, from which the program, its help and shell completion are made. Values.

The modules are named, not imported, so that one command never pays for another.
"""

from __future__ import annotations

from umiak.core.value import value


@value
class Command:
    """One command."""

    name: str
    summary: str
    """One line for `umiak --help`."""
    module: str
    """Where ``main(argv, environ, printer) -> int`` is."""
    flags: str = ""
    """The module whose ``FLAGS`` it takes, or ``module:NAME`` of another table in it."""
    words: tuple[str, ...] = ()
    """What must stand behind it: subcommands, or the choices of its argument."""
    starts_program: bool = False
    """Whether its flags end at the name of a program."""
    has_version: bool = False
    """Whether it takes ``--version``."""
    takes_file: bool = False
    """Whether its argument is a file."""
    takes_run: bool = False
    """Whether its argument is a submitted run."""
    most_arguments: int = 1
    """How many words it takes that are no flags."""


COMMANDS = {
    command.name: command
    for command in (
        Command(
            name="launch",
            summary="start a training program on this node, as part of a job on one or many nodes",
            module="umiak.cli.launch",
            flags="umiak.cli.launch_flags",
            starts_program=True,
            has_version=True,
        ),
        Command(
            name="train",
            summary="train a model from a config.yaml, on this machine or on a cluster",
            module="umiak.cli.train",
            flags="umiak.cli.train_flags",
            has_version=True,
        ),
        Command(
            name="ps",
            summary="show the status of the parameter servers of a running job: umiak ps status",
            module="umiak.cli.ps",
            flags="umiak.cli.ps_flags",
            words=("status",),
        ),
        Command(
            name="submit",
            summary="run a job on a place: this machine, hosts, a cluster or a cloud",
            module="umiak.cli.runs.submit",
            flags="umiak.cli.runs.submit_flags",
            takes_file=True,
        ),
        Command(
            name="status",
            summary="show the status of a submitted job",
            module="umiak.cli.runs.status",
            flags="umiak.cli.runs.flags:STATUS",
            takes_run=True,
        ),
        Command(
            name="logs",
            summary="print or follow the logs of a submitted job",
            module="umiak.cli.runs.logs",
            flags="umiak.cli.runs.flags:LOGS",
            takes_run=True,
        ),
        Command(
            name="wait",
            summary="wait for a submitted job; the exit status is the job's",
            module="umiak.cli.runs.wait",
            flags="umiak.cli.runs.flags:WAIT",
            takes_run=True,
        ),
        Command(
            name="cancel",
            summary="stop a submitted job",
            module="umiak.cli.runs.cancel",
            flags="umiak.cli.runs.flags:CANCEL",
            takes_run=True,
        ),
        Command(
            name="list",
            summary="list submitted jobs, the newest first",
            module="umiak.cli.runs.list",
            flags="umiak.cli.runs.flags:LIST",
        ),
        Command(
            name="exec",
            summary="run a command, or a shell, on a node of a running job",
            module="umiak.cli.runs.exec",
            flags="umiak.cli.runs.flags:EXEC",
            takes_run=True,
        ),
        Command(
            name="fetch",
            summary="copy a job's logs, checkpoints and other files here",
            module="umiak.cli.runs.fetch",
            flags="umiak.cli.runs.flags:FETCH",
            takes_run=True,
            most_arguments=10_000,
        ),
        Command(
            name="doctor",
            summary="find out why it does not work: examine this machine, or a place",
            module="umiak.cli.doctor.command",
            flags="umiak.cli.doctor.flags",
        ),
        Command(
            name="hosts",
            summary="run a command on all hosts of a place, copy files, check them: umiak hosts run",
            module="umiak.cli.hosts.command",
            flags="umiak.cli.hosts.flags",
            words=("run", "put", "get", "check", "clean"),
        ),
        Command(
            name="machines",
            summary="rent machines of a cloud, show and release them: umiak machines up",
            module="umiak.cli.machines.command",
            flags="umiak.cli.machines.flags",
            words=("up", "list", "image", "down"),
        ),
        Command(
            name="image",
            summary="make a container image for jobs: print, build and push it",
            module="umiak.cli.image.command",
            flags="umiak.cli.image.flags",
        ),
        Command(
            name="kubeconfig",
            summary="check a downloaded kubeconfig and add its cluster to yours",
            module="umiak.cli.kubeconfig.command",
            flags="umiak.cli.kubeconfig.flags",
            takes_file=True,
        ),
        Command(
            name="deploy",
            summary="print the manifests of the PaddleJob operator for Kubernetes",
            module="umiak.cli.deploy.command",
            flags="umiak.cli.deploy.flags",
        ),
        Command(
            name="operator",
            summary="serve PaddleJobs in a Kubernetes cluster",
            module="umiak.cli.operator.command",
            flags="umiak.cli.operator.flags",
        ),
        Command(
            name="token",
            summary="print a random secret for UMIAK_TOKEN, shared by all launchers of a job",
            module="umiak.cli.token",
        ),
        Command(
            name="completion",
            summary="print the completion script for bash, zsh or fish",
            module="umiak.cli.completion",
            words=("bash", "zsh", "fish"),
        ),
    )
}

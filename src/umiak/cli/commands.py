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
    page: str
    """The module whose ``PAGE`` is its help, with its flags, or ``module:NAME`` of another page in it."""
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
            page="umiak.cli.texts.help_launch",
            starts_program=True,
            has_version=True,
        ),
        Command(
            name="new",
            summary="look at tables and write a config.yaml for them: umiak new ctr --data FILES --label click",
            module="umiak.cli.new.command",
            page="umiak.cli.new.flags",
        ),
        Command(
            name="train",
            summary="train a model from a config.yaml, on this machine or on a cluster",
            module="umiak.cli.train",
            page="umiak.cli.train_flags",
            has_version=True,
        ),
        Command(
            name="predict",
            summary="predict with a trained model, a row for each sample of some data",
            module="umiak.cli.predict.command",
            page="umiak.cli.predict.flags",
        ),
        Command(
            name="serve",
            summary="serve an inference model over HTTP, with the Open Inference Protocol",
            module="umiak.cli.serve.command",
            page="umiak.cli.serve.flags",
        ),
        Command(
            name="export",
            summary="write a trained model for other programs: ONNX, MLflow, paddle.inference; or its tables",
            module="umiak.cli.export.command",
            page="umiak.cli.export.flags",
        ),
        Command(
            name="data",
            summary="show columns and first rows of Parquet, CSV and JSON lines, and check files: umiak data check",
            module="umiak.cli.data.command",
            page="umiak.cli.data.flags",
            words=("show", "check"),
            most_arguments=100_000,
        ),
        Command(
            name="features",
            summary="fit features to data, show and check what was fitted: umiak features fit",
            module="umiak.cli.features.command",
            page="umiak.cli.features.flags",
            words=("fit", "show", "check"),
        ),
        Command(
            name="ps",
            summary="show the status of the parameter servers of a running job: umiak ps status",
            module="umiak.cli.ps",
            page="umiak.cli.ps_flags",
            words=("status",),
        ),
        Command(
            name="submit",
            summary="run a job on a place: this machine, hosts, a cluster or a cloud",
            module="umiak.cli.runs.submit",
            page="umiak.cli.runs.help:SUBMIT",
            takes_file=True,
        ),
        Command(
            name="status",
            summary="show the status of a submitted job",
            module="umiak.cli.runs.status",
            page="umiak.cli.runs.help:STATUS",
            takes_run=True,
        ),
        Command(
            name="logs",
            summary="print or follow the logs of a submitted job",
            module="umiak.cli.runs.logs",
            page="umiak.cli.runs.help:LOGS",
            takes_run=True,
        ),
        Command(
            name="wait",
            summary="wait for a submitted job; the exit status is the job's",
            module="umiak.cli.runs.wait",
            page="umiak.cli.runs.help:WAIT",
            takes_run=True,
        ),
        Command(
            name="cancel",
            summary="stop a submitted job",
            module="umiak.cli.runs.cancel",
            page="umiak.cli.runs.help:CANCEL",
            takes_run=True,
        ),
        Command(
            name="list",
            summary="list submitted jobs, the newest first",
            module="umiak.cli.runs.list",
            page="umiak.cli.runs.help:LIST",
        ),
        Command(
            name="exec",
            summary="run a command, or a shell, on a node of a running job",
            module="umiak.cli.runs.exec",
            page="umiak.cli.runs.help:EXEC",
            takes_run=True,
        ),
        Command(
            name="fetch",
            summary="copy a job's logs, checkpoints and other files here",
            module="umiak.cli.runs.fetch",
            page="umiak.cli.runs.help:FETCH",
            takes_run=True,
            most_arguments=10_000,
        ),
        Command(
            name="dashboard",
            summary="show all runs of this machine in a browser",
            module="umiak.cli.dashboard.command",
            page="umiak.cli.dashboard.flags:DASHBOARD",
            most_arguments=1000,
        ),
        Command(
            name="top",
            summary="show the runs of this machine and their workers in a terminal",
            module="umiak.cli.dashboard.top",
            page="umiak.cli.dashboard.flags:TOP",
            most_arguments=1000,
        ),
        Command(
            name="doctor",
            summary="find out why it does not work: examine this machine, or a place",
            module="umiak.cli.doctor.command",
            page="umiak.cli.doctor.flags",
        ),
        Command(
            name="hosts",
            summary="run a command on all hosts of a place, copy files, check them: umiak hosts run",
            module="umiak.cli.hosts.command",
            page="umiak.cli.hosts.flags",
            words=("run", "put", "get", "check", "clean"),
        ),
        Command(
            name="machines",
            summary="rent machines of a cloud, show and release them: umiak machines up",
            module="umiak.cli.machines.command",
            page="umiak.cli.machines.flags",
            words=("up", "list", "image", "down"),
        ),
        Command(
            name="image",
            summary="make a container image for jobs: print, build and push it",
            module="umiak.cli.image.command",
            page="umiak.cli.image.flags",
        ),
        Command(
            name="kubeconfig",
            summary="check a downloaded kubeconfig and add its cluster to yours",
            module="umiak.cli.kubeconfig.command",
            page="umiak.cli.kubeconfig.flags",
            takes_file=True,
        ),
        Command(
            name="deploy",
            summary="print the manifests of the PaddleJob operator for Kubernetes",
            module="umiak.cli.deploy.command",
            page="umiak.cli.deploy.flags",
        ),
        Command(
            name="operator",
            summary="serve PaddleJobs in a Kubernetes cluster",
            module="umiak.cli.operator.command",
            page="umiak.cli.operator.flags",
        ),
        Command(
            name="token",
            summary="print a random secret for UMIAK_TOKEN, shared by all launchers of a job",
            module="umiak.cli.token",
            page="umiak.cli.texts.help_shell:TOKEN",
        ),
        Command(
            name="completion",
            summary="print the completion script for bash, zsh or fish",
            module="umiak.cli.completion",
            page="umiak.cli.texts.help_shell:COMPLETION",
            words=("bash", "zsh", "fish"),
        ),
    )
}

"""The flags of `umiak train`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import JSON, ON, QUIET, SCHEMA, SUBMISSION, flag, of_submission, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.schema.flags import Flag, FlagKind

CONFIG = "Config"
RUN = "Run"
PLACE = "Submit"
ASKED = "Inspect"

OF_A_SUBMISSION = ("nnodes", *(known.name for known in SUBMISSION))
"""They mean something with `--on` or `-b` only."""

FLAGS = (
    Flag(
        name="model",
        letter="m",
        help="Config to run: a file, a directory with a config.yaml, or a model of the zoo, e.g. umiak.models.rank.dnn (or "
        "paddlerec.models.rank.dnn).",
        group=CONFIG,
        metavar="CONFIG",
        aliases=("config_yaml",),
        elsewhere=("config",),
    ),
    Flag(
        name="override",
        letter="o",
        many=True,
        help="Override a config value, e.g. runner.epochs=1, or runner.NAME.epochs=1 for one runner. Repeatable; several may "
        "follow one -o.",
        group=CONFIG,
        metavar="KEY=VALUE",
        aliases=("opt",),
        elsewhere=("set",),
    ),
    flag(
        "topology",
        "Platform to read the cluster from (slurm, openmpi, paddlejob, ...). Default: auto-detect; none: disable.",
        CONFIG,
        metavar="NAME",
        env=("UMIAK_TOPOLOGY",),
    ),
    switch(
        "resume",
        "Resume from the latest complete checkpoint of the runner; start from scratch if there is none.",
        RUN,
        elsewhere=("continue", "auto_resume"),
    ),
    flag(
        "run_dir",
        "Directory for metrics.jsonl, plots and worker logs, with a subdirectory per runner.",
        RUN,
        metavar="DIR",
        default="run",
        elsewhere=("output_dir", "log_dir"),
    ),
    shared(QUIET, "Print notes, warnings and errors only; metrics.jsonl and the plot are still written.", RUN),
    flag(
        "live",
        "Update a progress line of this width in place although stderr is not a terminal. Set by the launcher for its "
        "workers.",
        RUN,
        kind=FlagKind.NUMBER,
        metavar="COLUMNS",
    ),
    shared(
        ON,
        "Submit the config to this place, as umiak.toml or your own config.toml name it, and print the handle of the run.",
        PLACE,
    ),
    Flag(
        name="backend",
        letter="b",
        help="Submit the config to the cluster of this backend.yaml, and print the handle of the run.",
        group=PLACE,
        metavar="BACKEND",
        aliases=("backend_yaml",),
    ),
    flag(
        "nnodes",
        "Number of nodes, each with the servers and trainers that the config asks for. Default: 1; with -b: as backend.yaml says.",
        PLACE,
        kind=FlagKind.NUMBER,
        least=1,
        elsewhere=("nodes",),
    ),
    *of_submission(PLACE, "With --on or -b: "),
    flag(
        "survey",
        "Judge every config below this directory, or one config, one line each: runs, runs with remarks, or does not run and why. "
        "Packages that are not installed are listed with the command that installs all of them. With --json as JSON. Nothing of "
        "the user's code is run.",
        ASKED,
        metavar="PATH",
    ),
    switch(
        "explain",
        "Print the plan: processes, files and strategy of each runner. Train nothing.",
        ASKED,
        elsewhere=("plan",),
    ),
    switch(
        "check",
        "Check the config, the models, the reader classes and the first lines of the data. Train nothing.",
        ASKED,
        elsewhere=("validate", "lint"),
    ),
    flag(
        "compare",
        "Train some steps with umiak and with plain Paddle on the same batches, each in processes of its own, and print every "
        "parameter that differs, with its first step. static: the static_model.py beside the config, on tables and with Paddle's "
        "executor. Exit status 4 if they differ. Checkpoints are neither read nor written.",
        ASKED,
        choices=("plain", "static"),
    ),
    flag("steps", "With --compare: so many steps. Default: 8.", ASKED, kind=FlagKind.NUMBER, least=1),
    flag("tolerance", "With --compare: how far apart two numbers may be. Default: 1e-5.", ASKED, metavar="NUMBER"),
    flag(
        "record",
        "Record every step of the training in this directory, and end after --steps. Set by --compare for its processes.",
        ASKED,
        metavar="DIR",
    ),
    shared(
        JSON,
        "Print JSON to stdout: the result of --explain, --check or --compare, one line per training event, or the submitted run.",
        ASKED,
    ),
    shared(SCHEMA, "Print the JSON schema of config.yaml, for completion and checks in editors.", ASKED),
)

PAGE = CommandPage(
    usage=("umiak train -m CONFIG [flags]",),
    about="Train a model from a config.yaml: in one process, with parameter servers, or data parallel with all-reduce. Configs of "
    "PaddleRec 1.8.5 and of its newer layout work unchanged; all mistakes are reported at once, with their lines. On a node of a "
    "cluster, the environment makes the same command a trainer or a server.",
    examples=(
        ("umiak train -m config.yaml", "the runners in `mode`, one after another"),
        ("umiak train -m config.yaml --explain", "print the plan"),
        ("umiak train -m config.yaml --check", "report mistakes"),
        ("umiak train -m config.yaml -o runner.epochs=1", "override a value"),
        ("umiak train -m config.yaml -o mode=infer", "another runner of the same file"),
        ("umiak train -m config.yaml --compare plain", "the same steps as plain Paddle?"),
        ("umiak train -m config.yaml --resume", "resume from the latest checkpoint"),
        ("umiak train -m umiak.models.rank.dnn", "a model of the zoo"),
        ("umiak train -m config.yaml --on lab", "submit it to the place lab"),
        ("umiak train -m config.yaml -b backend.yaml", "submit it to PaddleCloud"),
    ),
    flags=FLAGS,
    lists=(("General", (("--version", "Print the version."), ("-h, --help", "Print this help."))),),
    ending="Exit status: 0 on success, 1 if training failed, 2 for a wrong command line or config, 3 for a failure outside of umiak "
    "(network, disk, permissions), 4 if --compare finds a difference, 70 for a bug of umiak.",
)

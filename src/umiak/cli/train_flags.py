"""The flags of `umiak train`: a table. Values."""

from __future__ import annotations

from umiak.schema.flags import Flag, FlagKind, FlagOrigin

CONFIG = "Config"
RUN = "Run"
PLACE = "Submit"
ASKED = "Inspect"

OF_A_SUBMISSION = ("nnodes", "dry_run", "allow_secret_files", "foreground", "key")
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
    Flag(
        name="topology",
        help="Platform to read the cluster from (slurm, openmpi, paddlejob, ...). Default: auto-detect; none: disable.",
        group=CONFIG,
        origin=FlagOrigin.UMIAK,
        metavar="NAME",
        env=("UMIAK_TOPOLOGY",),
    ),
    Flag(
        name="resume",
        help="Resume from the latest complete checkpoint of the runner; start from scratch if there is none.",
        group=RUN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("continue", "auto_resume"),
    ),
    Flag(
        name="run_dir",
        help="Directory for metrics.jsonl, plots and worker logs, with a subdirectory per runner.",
        group=RUN,
        origin=FlagOrigin.UMIAK,
        metavar="DIR",
        default="run",
        elsewhere=("output_dir", "log_dir"),
    ),
    Flag(
        name="quiet",
        letter="q",
        help="Print notes, warnings and errors only; metrics.jsonl and the plot are still written.",
        group=RUN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("silent",),
    ),
    Flag(
        name="live",
        help="Update a progress line of this width in place although stderr is not a terminal. Set by the launcher for its "
        "workers.",
        group=RUN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        metavar="COLUMNS",
    ),
    Flag(
        name="on",
        help="Submit the config to this place, as umiak.toml or your own config.toml name it, and print the handle of the run.",
        group=PLACE,
        origin=FlagOrigin.UMIAK,
        metavar="PLACE",
        elsewhere=("place",),
    ),
    Flag(
        name="backend",
        letter="b",
        help="Submit the config to the cluster of this backend.yaml, and print the handle of the run.",
        group=PLACE,
        metavar="BACKEND",
        aliases=("backend_yaml",),
    ),
    Flag(
        name="nnodes",
        help="Number of nodes, each with the servers and trainers that the config asks for. Default: 1; with -b: as backend.yaml says.",
        group=PLACE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=1,
        metavar="N",
        elsewhere=("nodes",),
    ),
    Flag(
        name="dry_run",
        help="With --on or -b: print every file and command, secrets masked, every file that would be sent, and what is missing here; "
        "start nothing. Neither an account nor a client of the place is needed.",
        group=PLACE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("dryrun",),
    ),
    Flag(
        name="allow_secret_files",
        help="With --on or -b: send files that look like secrets as well, such as .env or private keys. Default: they are an error.",
        group=PLACE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="foreground",
        help="With --on or -b: follow the logs until the job is over; Ctrl-C cancels it. The exit status is the job's.",
        group=PLACE,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("follow", "wait", "attach"),
    ),
    Flag(
        name="key",
        help="With --on or -b: name of this submission, for scripts. With the same key again the same run is returned, and nothing is "
        "started.",
        group=PLACE,
        origin=FlagOrigin.UMIAK,
        metavar="TEXT",
    ),
    Flag(
        name="survey",
        help="Judge every config below this directory, or one config, one line each: runs, runs with remarks, or does not run and why. "
        "Packages that are not installed are listed with the command that installs all of them. With --json as JSON. Nothing of "
        "the user's code is run.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        metavar="PATH",
    ),
    Flag(
        name="explain",
        help="Print the plan: processes, files and strategy of each runner. Train nothing.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("plan",),
    ),
    Flag(
        name="check",
        help="Check the config, the models, the reader classes and the first lines of the data. Train nothing.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("validate", "lint"),
    ),
    Flag(
        name="compare",
        help="Train some steps with umiak and with plain Paddle on the same batches, each in processes of its own, and print every "
        "parameter that differs, with its first step. static: the static_model.py beside the config, on tables and with Paddle's "
        "executor. Exit status 4 if they differ. Checkpoints are neither read nor written.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=("plain", "static"),
    ),
    Flag(
        name="steps",
        help="With --compare: so many steps. Default: 8.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=1,
        metavar="N",
    ),
    Flag(
        name="tolerance",
        help="With --compare: how far apart two numbers may be. Default: 1e-5.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        metavar="NUMBER",
    ),
    Flag(
        name="record",
        help="Record every step of the training in this directory, and end after --steps. Set by --compare for its processes.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        metavar="DIR",
    ),
    Flag(
        name="json",
        help="Print JSON to stdout: the result of --explain, --check or --compare, one line per training event, or the submitted run.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="schema",
        help="Print the JSON schema of config.yaml, for completion and checks in editors.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("json_schema",),
    ),
)

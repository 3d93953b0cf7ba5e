"""The flags of `umiak train`: a table. Values."""

from __future__ import annotations

from umiak.schema.flags import Flag, FlagKind, FlagOrigin

CONFIG = "Config"
RUN = "Run"
ASKED = "Inspect"

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
        name="backend",
        letter="b",
        help="backend.yaml of a cluster to submit the config to. Not supported yet.",
        group=CONFIG,
        metavar="BACKEND",
        aliases=("backend_yaml",),
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
        name="explain",
        help="Print the plan: processes, files and strategy of each runner. Train nothing.",
        group=ASKED,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("plan", "dry_run", "dryrun"),
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
        name="json",
        help="Print JSON to stdout: the result of --explain or --check, or one line per training event.",
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

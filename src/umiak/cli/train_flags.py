"""The flags of `umiak train`: a table. Values."""

from __future__ import annotations

from umiak.compat.flags import Flag, Kind, Origin

CONFIG = "The config"
RUN = "How it is run"
ASKED = "Instead of training"

FLAGS = (
    Flag(
        name="model",
        letter="m",
        help="The config: a file, a directory that has a config.yaml, or a model that comes with umiak, such as "
        "umiak.models.rank.dnn (paddlerec.models.rank.dnn is the same).",
        group=CONFIG,
        metavar="CONFIG",
        aliases=("config_yaml",),
        elsewhere=("config",),
    ),
    Flag(
        name="override",
        letter="o",
        many=True,
        help="Say something else than the config does: runner.epochs=1 for every runner, runner.NAME.epochs=1 for one of "
        "them. May be said several times, and several may follow one -o.",
        group=CONFIG,
        metavar="KEY=VALUE",
        aliases=("opt",),
        elsewhere=("set",),
    ),
    Flag(
        name="backend",
        letter="b",
        help="The backend.yaml of a cluster to submit the config to. Not there yet.",
        group=CONFIG,
        metavar="BACKEND",
        aliases=("backend_yaml",),
    ),
    Flag(
        name="topology",
        help="Whose variables describe the cluster: slurm, openmpi, paddlejob, ... Not said: whichever are found; none: nobody's.",
        group=CONFIG,
        origin=Origin.UMIAK,
        metavar="NAME",
        env=("UMIAK_TOPOLOGY",),
    ),
    Flag(
        name="resume",
        help="Go on from the newest whole checkpoint of the runner; without one it begins anew.",
        group=RUN,
        origin=Origin.UMIAK,
        kind=Kind.SWITCH,
        default=False,
        elsewhere=("continue", "auto_resume"),
    ),
    Flag(
        name="run_dir",
        help="Where a run leaves metrics.jsonl, its picture and its workers' logs, in a directory named like the runner.",
        group=RUN,
        origin=Origin.UMIAK,
        metavar="DIR",
        default="run",
        elsewhere=("output_dir", "log_dir"),
    ),
    Flag(
        name="live",
        help="Renew one line in place, this wide, though stderr is no terminal: what workers are told whose output a launcher shows.",
        group=RUN,
        origin=Origin.UMIAK,
        kind=Kind.NUMBER,
        metavar="COLUMNS",
    ),
    Flag(
        name="explain",
        help="Print the plan: who runs what, on which files, with which strategy.",
        group=ASKED,
        origin=Origin.UMIAK,
        kind=Kind.SWITCH,
        default=False,
        elsewhere=("plan", "dry_run", "dryrun"),
    ),
    Flag(
        name="check",
        help="Look for mistakes in the config, the models, the reader classes and the first lines of the data; train nothing.",
        group=ASKED,
        origin=Origin.UMIAK,
        kind=Kind.SWITCH,
        default=False,
        elsewhere=("validate", "lint"),
    ),
    Flag(
        name="json",
        help="As JSON on stdout: the result of --explain or --check; in training a line for every event.",
        group=ASKED,
        origin=Origin.UMIAK,
        kind=Kind.SWITCH,
        default=False,
    ),
    Flag(
        name="schema",
        help="Print the JSON schema of a config.yaml, with which editors complete and check keys.",
        group=ASKED,
        origin=Origin.UMIAK,
        kind=Kind.SWITCH,
        default=False,
        elsewhere=("json_schema",),
    ),
)

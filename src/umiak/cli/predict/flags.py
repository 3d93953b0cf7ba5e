"""The flags of `umiak predict`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import JSON, QUIET, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.cli.train_flags import FLAGS as TRAIN_FLAGS
from umiak.core.value import replace
from umiak.schema.flags import FlagKind

MODEL = "Model"
DATA = "Data"
RUN = "Run"
PART_WORKER = "part_worker"
"""Of processes that this command starts itself, and so on no page."""

_OF_TRAIN = {each.name: each for each in TRAIN_FLAGS}

FLAGS = (
    replace(
        _OF_TRAIN["model"],
        group=MODEL,
        help="Config that the model was trained with: a file, or a directory with a config.yaml.",
    ),
    replace(_OF_TRAIN["override"], group=MODEL),
    flag(
        "checkpoint",
        "Checkpoint, or a directory of checkpoints, of which the last one is taken. Default: init_model_path of the runner of class "
        "infer, else save_checkpoint_path of the first runner.",
        MODEL,
        metavar="PATH",
        elsewhere=("ckpt", "model_path", "load"),
    ),
    flag(
        "phase",
        "Phase whose model and slots are used. Default: that of the runner of class infer, else the one that is evaluated.",
        MODEL,
        metavar="NAME",
    ),
    flag(
        "data",
        "Data to predict: a directory, pattern, file or URL, in the form of the phase's dataset. A label may be missing. Default: the "
        "dataset's own data_path.",
        DATA,
        metavar="PATH",
        elsewhere=("input", "data_path"),
    ),
    flag(
        "out",
        "File for the predictions, a row for each sample in the order of the data: CSV, or Parquet if it ends in .parquet and pyarrow is "
        "installed.",
        DATA,
        metavar="FILE",
        elsewhere=("output", "output_path"),
    ),
    flag("keep", "Slots that are written beside the predictions, comma-separated.", DATA, metavar="SLOT,..."),
    switch("overwrite", "Replace the output if it is there.", DATA, elsewhere=("force",)),
    flag(
        "workers",
        "Number of processes that compute; each holds the whole model.",
        RUN,
        kind=FlagKind.NUMBER,
        default=1,
        least=1,
        most=256,
        metavar="N",
        elsewhere=("num_workers", "nproc"),
    ),
    switch(
        "resume",
        "Go on with the parts that a prediction has left that was stopped or killed.",
        RUN,
        elsewhere=("continue",),
    ),
    flag(
        "part_rows",
        "About so many rows are in a part: what is done again after a kill.",
        RUN,
        kind=FlagKind.NUMBER,
        default=50_000,
        least=1,
        metavar="N",
    ),
    switch(PART_WORKER, "Compute parts that are named on standard input. Set by --workers for its processes.", RUN),
    shared(QUIET, "Print warnings and errors only.", RUN),
    shared(JSON, "Print what came of it as JSON to stdout.", RUN),
)

PAGE = CommandPage(
    usage=("umiak predict -m CONFIG --data PATH --out FILE [flags]",),
    about="Predict with a trained model: for each sample of the data a row, in its order. The answers are those of an evaluation of the same "
    "config, to the bit. The data is read as it goes, however long it is, and written in parts that are there as a whole or not at all; the "
    "output gets its name when all of it is on the disk.",
    examples=(
        ("umiak predict -m ctr --data day --out s.csv", "the last checkpoint"),
        ("umiak predict -m ctr --data day --out s.csv --keep user,item", "with two slots beside"),
        ("umiak predict -m ctr --data day --out s.csv --workers 4", "four processes"),
        ("umiak predict -m ctr --data day --out s.csv --resume", "go on after a kill"),
        ("umiak predict -m ctr --data day --out s.csv --checkpoint out/3", "another checkpoint"),
    ),
    flags=tuple([each for each in FLAGS if each.name != PART_WORKER]),
    ending="Exit status: 0 on success, 1 if a worker was killed, 2 for a wrong command line or config, 3 for a failure outside of umiak "
    "(disk, network, permissions), 70 for a bug of umiak.",
)

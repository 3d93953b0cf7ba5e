"""The flags of `umiak export`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.predict.flags import FLAGS as PREDICT_FLAGS
from umiak.cli.shared_flags import JSON, QUIET, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace
from umiak.schema.flags import FlagKind

MODEL = "Model"
FILES = "Files"
RUN = "Run"

_OF_PREDICT = {each.name: each for each in PREDICT_FLAGS}

FLAGS = (
    replace(
        _OF_PREDICT["model"],
        help="Config that the model was trained with: a file, or a directory with a config.yaml. Tables need none where --checkpoint names one.",
    ),
    _OF_PREDICT["override"],
    _OF_PREDICT["checkpoint"],
    replace(
        _OF_PREDICT["phase"],
        help="Phase whose model and slots are exported. Default: that of the runner of class infer, else the one that is evaluated.",
    ),
    replace(
        _OF_PREDICT["data"],
        group=MODEL,
        help="Data of which some samples are asked: of the model that was trained, and of the one that was written. Default: the dataset's own data_path.",
    ),
    flag(
        "format",
        "paddle (for paddle.inference and `umiak serve`), onnx, mlflow (a directory that MLflow loads as pyfunc); or the tables alone, parquet "
        "or safetensors.",
        FILES,
        choices=("paddle", "onnx", "mlflow", "parquet", "safetensors"),
    ),
    flag(
        "out",
        "Directory for what is written. It is there as a whole or not at all.",
        FILES,
        metavar="DIR",
        elsewhere=("output",),
    ),
    flag(
        "table",
        "Tables that are written, comma-separated. Default: all. With parquet and safetensors.",
        FILES,
        metavar="NAME,...",
    ),
    flag(
        "largest_table",
        "With onnx: tables that are larger than this together stay outside, the largest first; their rows are inputs, and they are written beside the model as safetensors.",
        FILES,
        kind=FlagKind.SIZE,
        default=1 << 30,
        least=0,
        most=(2 << 30) - (64 << 20),
        metavar="SIZE",
    ),
    switch("overwrite", "Replace what this command has written there before.", FILES, elsewhere=("force",)),
    shared(QUIET, "Print warnings and errors only.", RUN),
    shared(JSON, "Print what was written as JSON to stdout.", RUN),
)

PAGE = CommandPage(
    usage=("umiak export -m CONFIG --format FORMAT --out DIR [flags]",),
    about="Write a trained model, or its tables, for other programs. A model is asked about samples before it gets its name, and must answer as the "
    "one that was trained: as ONNX to 1e-5, with onnxruntime.",
    examples=(
        ("umiak export -m ctr --format onnx --out o", "ids in, tables inside"),
        ("umiak export -m ctr --format mlflow --out m", "for mlflow.pyfunc.load_model"),
        ("umiak export -m ctr --format paddle --out p", "umiak serve --models p"),
        ("umiak export -m ctr --format parquet --out t", "rows of tables"),
        ("umiak export --checkpoint out/3 --format safetensors --out t", "without a config"),
    ),
    flags=FLAGS,
    ending="Exit status: 0 on success, 1 if the model can't be written in this form or answers otherwise, 2 for a wrong command line or config, 3 for "
    "a failure outside of umiak (disk, permissions), 70 for a bug of umiak.",
)

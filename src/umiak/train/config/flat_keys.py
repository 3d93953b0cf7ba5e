"""Every key of a config in the newer layout: names, kinds, defaults, and what each stands for in the older one. Values."""

from __future__ import annotations

from umiak.core.cluster import StrategyName
from umiak.schema import kinds
from umiak.schema.keys import words
from umiak.train.config.keys import ONLINE_KEYS
from umiak.train.config.kinds import DENSE, SPARSE, SWITCH, TIME, ours, row
from umiak.train.config.values import DatasetType, DivideBy, EmbeddingTables, NodeData, Wire

_NATIVE = "both types use umiak's own reader: declare slots, or name a reader class with train_reader_path"
_METRICS = "metrics are the model's own"
_FLUID = "it belongs to the static graph's debugging, which umiak does not have"
_FILES = "data_path may be a URL, and credentials are taken from the environment"
FLAT_GLOBAL = (
    ours("workspace", kinds.PATH, "Base directory of relative paths.", default_said="the directory of the config"),
    ours(
        "mode",
        kinds.NAMES,
        "`train`, `infer`, or both.",
        default_said="`train` if there is a `train_data_dir`, else `infer`",
    ),
    row("runner", kinds.MAPPING, "Everything below.", required=True),
    row("hyper_parameters", kinds.MAPPING, "Hyper-parameters of the model."),
    row("table_parameters", kinds.MAPPING, "Same as [above](#table-parameters)."),
    ours("features", kinds.MAPPING, "Same as [above](#the-whole)."),
    ours("evaluation", kinds.MAPPING, "Same as [above](#evaluation)."),
    ours("objective", kinds.MAPPING, "Same as [above](#objective)."),
    ours("retrieval", kinds.MAPPING, "Same as [above](#retrieval); `items` begins at the workspace."),
    ours(
        "embedding_tables",
        kinds.CHOICE,
        "Same as [above](#the-whole).",
        default="shared",
        choices=words(EmbeddingTables),
    ),
)

FLAT = (
    row("train_data_dir", kinds.PATH, "`data_path` for training, from the workspace."),
    row("test_data_dir", kinds.PATH, "`data_path` for `infer`, from the workspace."),
    row("infer_data_dir", kinds.PATH, "Another name for `test_data_dir`."),
    row(
        "train_reader_path",
        kinds.PATH,
        "`data_converter` for training: a module beside the config, with a class `RecDataset`.",
        default_said="with `dygraph_model.py`: `reader`",
    ),
    row("infer_reader_path", kinds.PATH, "Same for `infer`."),
    row("train_batch_size", kinds.WHOLE, "`batch_size` for training.", least=1),
    row("infer_batch_size", kinds.WHOLE, "`batch_size` for `infer`.", least=1),
    row(
        "reader_type",
        kinds.CHOICE,
        "`type` of both datasets.",
        default="DataLoader",
        choices=(DatasetType.DATA_LOADER.value, DatasetType.QUEUE_DATASET.value),
        synonyms=(("RecDataset", "DataLoader"), ("InmemoryDataset", "QueueDataset")),
    ),
    row("epochs", kinds.WHOLE, "`epochs`.", least=1),
    row("print_interval", kinds.WHOLE, "`print_interval`.", default=20, least=1),
    row("num_workers", kinds.WHOLE, "`num_workers` of both datasets.", default=0, least=0),
    row("thread_num", kinds.WHOLE, "`thread_num` of both phases.", default=1, least=1),
    row("train_thread_num", kinds.WHOLE, "`thread_num` for training alone.", least=1),
    row("infer_thread_num", kinds.WHOLE, "`thread_num` for `infer` alone.", least=1),
    row("model_save_path", kinds.PATH, "`save_checkpoint_path`: after every epoch.", default_said="nothing is saved"),
    row("model_init_path", kinds.PATH, "`init_model_path` for training."),
    row("warmup_model_path", kinds.PATH, "Another name for `model_init_path`."),
    row("runner_result_dump_path", kinds.PATH, "`runner_result_dump_path`."),
    row("infer_load_path", kinds.PATH, "`init_model_path` for `infer`."),
    row("infer_start_epoch", kinds.WHOLE, "`infer_start_epoch`.", least=0),
    row("infer_end_epoch", kinds.WHOLE, "`infer_end_epoch`.", least=1),
    row("use_gpu", SWITCH, "`device: gpu`.", default=False),
    row("use_xpu", SWITCH, "`device: xpu`.", default=False),
    row("use_npu", SWITCH, "`device: npu`.", default=False),
    row(
        "use_fleet",
        kinds.TRUTH,
        "`class: cluster_train` with `fleet_mode: collective` and `alone_allowed`.",
        default=False,
    ),
    row(
        "sync_mode",
        kinds.CHOICE,
        "`class: cluster_train` with `fleet_mode: ps`, this `distribute_strategy` and `alone_allowed`.",
        choices=words(StrategyName),
        refused_words=(
            (
                "heter",
                "umiak's parameter servers have no heter workers; `async` with use_gpu is the closest alternative",
            ),
            ("gpubox", "tables in GPU memory are not supported; `async` with use_gpu is the closest alternative"),
        ),
    ),
    row("geo_step", kinds.WHOLE, "`geo_step`.", default=100, least=1),
    ours(
        "worker_num",
        kinds.WHOLE,
        "With `sync_mode` or `use_fleet`: `class: local_cluster_train` with this many trainers.",
        least=1,
    ),
    ours(
        "server_num",
        kinds.WHOLE,
        "With `sync_mode`: `class: local_cluster_train` with this many parameter servers.",
        least=1,
    ),
    ours("wire", kinds.CHOICE, "`wire`.", choices=words(Wire)),
    ours("prefetch_rows", kinds.CHOICE, "`prefetch_rows`.", default=1, choices=("0", "1")),
    ours("save_step_interval", kinds.WHOLE, "`save_step_interval`.", default=-1, least=1, also=(-1,)),
    ours("save_step_path", kinds.PATH, "`save_step_path`."),
    ours("save_minutes_interval", kinds.WHOLE, "`save_minutes_interval`.", default=-1, least=1, also=(-1,)),
    ours("keep_checkpoints", kinds.WHOLE, "`keep_checkpoints`.", least=1),
    ours("node_data", kinds.CHOICE, "`node_data`.", choices=words(NodeData)),
    row("seed", kinds.WHOLE, "`seed`.", default=12345, least=0),
    ours("shuffle", kinds.WHOLE, "`shuffle` for training.", default=0, least=0),
    row("use_inference", kinds.TRUTH, "Save an inference model with each checkpoint.", default=False),
    row("save_inference_feed_varnames", kinds.NAMES, "`save_inference_feed_varnames`."),
    row("save_inference_fetch_varnames", kinds.NAMES, "`save_inference_fetch_varnames`."),
    *ONLINE_KEYS,
    ours(
        "model",
        kinds.PATH,
        "`model` of both phases, from the workspace. `dygraph_model.py` is a model of PaddleRec 2; `rank.deepfm` one of the zoo.",
        default_said="`model.py`, or `dygraph_model.py` if that is there instead",
    ),
    ours(
        "divide_by",
        kinds.CHOICE,
        "With `dygraph_model.py`: `divide_by` of both datasets.",
        choices=words(DivideBy),
        default_said="`files` if the reader goes through its list of files and does nothing else with it, else `samples`",
    ),
    ours(
        "drop_last",
        kinds.TRUTH,
        "With `dygraph_model.py`: leave out batches that are not full.",
        default_said="`false`; `true` if the model reads the batch size from the config",
    ),
    ours(
        "lazy_embeddings",
        kinds.TRUTH,
        "With `dygraph_model.py`: rows of tables only move when they are used, also where Paddle moves all rows in each step.",
        default=False,
    ),
    ours(
        "table_embeddings",
        kinds.NAMES,
        "With `dygraph_model.py`: embedding layers that become tables without `sparse=True`.",
    ),
    ours(
        "table_embeddings_above",
        kinds.WHOLE,
        "With `dygraph_model.py`: embeddings with at least so many rows become tables.",
    ),
    ours("dense_embeddings", kinds.NAMES, "With `dygraph_model.py`: embedding layers that stay parameters."),
    ours(
        "save_pdparams",
        kinds.TRUTH,
        "With `dygraph_model.py`: write PaddleRec's own files, `rec.pdparams` and `rec.pdopt`, into each epoch's checkpoint.",
        default=True,
    ),
    ours(
        "train_stream",
        kinds.MAPPING,
        "With a `train_data_dir` such as `kafka://broker:9092/topic`: `stream`, and `class: online_learning`.",
    ),
    ours("evaluate_data_dir", kinds.PATH, "`data_path` for evaluation after every epoch, from the workspace."),
    ours(
        "evaluate_share",
        kinds.NUMBER,
        "Tables: evaluate after every epoch on this share of the rows, chosen by a hash of what is in them, and train on the others.",
        least=0,
    ),
    ours("train_until", TIME, "Tables: train on rows before this time.", default_said="`evaluate_after`"),
    ours(
        "evaluate_after",
        TIME,
        "Tables: evaluate after every epoch on rows of this time or later.",
        default_said="`train_until`",
    ),
    ours("early_stop_patience", kinds.WHOLE, "`early_stop_patience`.", least=1),
    ours("early_stop_metric", kinds.NAME, "`early_stop_metric`."),
    ours("bad_rows", kinds.NUMBER, "`bad_rows` of all datasets.", default=0.0, least=0),
    ours("column_names", kinds.NAMES, "`column_names` of all datasets."),
    ours("quoted_newlines", kinds.TRUTH, "`quoted_newlines` of all datasets.", default=True),
    ours("sparse_slots", SPARSE, "`sparse_slots` of both datasets."),
    ours("dense_slots", DENSE, "`dense_slots` of both datasets."),
    ours("padding", kinds.WHOLE, "`padding` of both datasets.", default=0),
    row("use_auc", kinds.TRUTH, settled=_METRICS),
    row("auc_num", kinds.WHOLE, settled=_METRICS),
    row("use_visual", kinds.TRUTH, settled="scalars are written wherever VisualDL is installed"),
    row("use_gloo", kinds.TRUTH, settled="trainers find each other without it"),
    row("split_file_list", kinds.TRUTH, settled="data is divided among trainers in every mode"),
    row("example_count_method", kinds.TEXT, settled="every sample that is read is counted"),
    row("pipe_command", kinds.TEXT, ignored=_NATIVE),
    *(
        row(name, kinds.TEXT, ignored=_FLUID)
        for name in (
            "dataset_debug",
            "need_dump",
            "need_train_dump",
            "need_infer_dump",
            "dump_fields",
            "dump_fields_path",
            "dump_fields_dir",
            "train_dump_fields_dir",
            "infer_dump_fields_dir",
            "dump_param",
            "parse_ins_id",
            "parse_content",
        )
    ),
    *(row(name, kinds.TEXT, ignored=_FILES) for name in ("fs_client", "fs_name", "fs_ugi")),
)
"""The mapping ``runner`` of the newer layout. A meaning in backticks is the key of the older layout that it stands for."""

"""Every key of a config in the newer layout: names, kinds, defaults, and what each stands for in the older one. Values."""

from __future__ import annotations

from umiak.core.strategy_name import StrategyName
from umiak.schema import kinds
from umiak.schema.keys import Key, words
from umiak.train.config.keys import ONLINE_KEYS, Origin
from umiak.train.config.kinds import DENSE, SPARSE, SWITCH
from umiak.train.config.values import DatasetType, DivideBy, EmbeddingTables, NodeData

_NATIVE = "both types use umiak's own reader: declare slots, or name a reader class with train_reader_path"
_METRICS = "metrics are the model's own"
_FLUID = "it belongs to the static graph's debugging, which umiak does not have"
_FILES = "data_path may be a URL, and credentials are taken from the environment"
FLAT_GLOBAL = (
    Key(
        name="workspace",
        meaning="Base directory of relative paths.",
        kind=kinds.PATH,
        default_said="the directory of the config",
        origin=Origin.UMIAK,
    ),
    Key(
        name="mode",
        meaning="`train`, `infer`, or both.",
        kind=kinds.NAMES,
        default_said="`train` if there is a `train_data_dir`, else `infer`",
        origin=Origin.UMIAK,
    ),
    Key(name="runner", meaning="Everything below.", kind=kinds.MAPPING, required=True),
    Key(name="hyper_parameters", meaning="Hyper-parameters of the model.", kind=kinds.MAPPING),
    Key(name="table_parameters", meaning="Same as [above](#table-parameters).", kind=kinds.MAPPING),
    Key(
        name="embedding_tables",
        meaning="Same as [above](#the-whole).",
        kind=kinds.CHOICE,
        default="shared",
        choices=words(EmbeddingTables),
        origin=Origin.UMIAK,
    ),
)

FLAT = (
    Key(name="train_data_dir", meaning="`data_path` for training, from the workspace.", kind=kinds.PATH),
    Key(name="test_data_dir", meaning="`data_path` for `infer`, from the workspace.", kind=kinds.PATH),
    Key(name="infer_data_dir", meaning="Another name for `test_data_dir`.", kind=kinds.PATH),
    Key(
        name="train_reader_path",
        meaning="`data_converter` for training: a module beside the config, with a class `RecDataset`.",
        kind=kinds.PATH,
        default_said="with `dygraph_model.py`: `reader`",
    ),
    Key(name="infer_reader_path", meaning="Same for `infer`.", kind=kinds.PATH),
    Key(name="train_batch_size", meaning="`batch_size` for training.", kind=kinds.WHOLE, least=1),
    Key(name="infer_batch_size", meaning="`batch_size` for `infer`.", kind=kinds.WHOLE, least=1),
    Key(
        name="reader_type",
        meaning="`type` of both datasets.",
        kind=kinds.CHOICE,
        default="DataLoader",
        choices=(DatasetType.DATA_LOADER.value, DatasetType.QUEUE_DATASET.value),
        synonyms=(("RecDataset", "DataLoader"), ("InmemoryDataset", "QueueDataset")),
    ),
    Key(name="epochs", meaning="`epochs`.", kind=kinds.WHOLE, least=1),
    Key(name="print_interval", meaning="`print_interval`.", kind=kinds.WHOLE, default=20, least=1),
    Key(name="num_workers", meaning="`num_workers` of both datasets.", kind=kinds.WHOLE, default=0, least=0),
    Key(name="thread_num", meaning="`thread_num` of both phases.", kind=kinds.WHOLE, default=1, least=1),
    Key(name="train_thread_num", meaning="`thread_num` for training alone.", kind=kinds.WHOLE, least=1),
    Key(name="infer_thread_num", meaning="`thread_num` for `infer` alone.", kind=kinds.WHOLE, least=1),
    Key(
        name="model_save_path",
        meaning="`save_checkpoint_path`: after every epoch.",
        kind=kinds.PATH,
        default_said="nothing is saved",
    ),
    Key(name="model_init_path", meaning="`init_model_path` for training.", kind=kinds.PATH),
    Key(name="warmup_model_path", meaning="Another name for `model_init_path`.", kind=kinds.PATH),
    Key(name="runner_result_dump_path", meaning="`runner_result_dump_path`.", kind=kinds.PATH),
    Key(name="infer_load_path", meaning="`init_model_path` for `infer`.", kind=kinds.PATH),
    Key(name="infer_start_epoch", meaning="`infer_start_epoch`.", kind=kinds.WHOLE, least=0),
    Key(name="infer_end_epoch", meaning="`infer_end_epoch`.", kind=kinds.WHOLE, least=1),
    Key(name="use_gpu", meaning="`device: gpu`.", kind=SWITCH, default=False),
    Key(name="use_xpu", meaning="`device: xpu`.", kind=SWITCH, default=False),
    Key(name="use_npu", meaning="`device: npu`.", kind=SWITCH, default=False),
    Key(
        name="use_fleet",
        meaning="`class: cluster_train` with `fleet_mode: collective` and `alone_allowed`.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(
        name="sync_mode",
        meaning="`class: cluster_train` with `fleet_mode: ps`, this `distribute_strategy` and `alone_allowed`.",
        kind=kinds.CHOICE,
        choices=words(StrategyName),
        refused_words=(
            (
                "heter",
                "umiak's parameter servers have no heter workers; `async` with use_gpu is the closest alternative",
            ),
            ("gpubox", "tables in GPU memory are not supported; `async` with use_gpu is the closest alternative"),
        ),
    ),
    Key(name="geo_step", meaning="`geo_step`.", kind=kinds.WHOLE, default=100, least=1),
    Key(
        name="worker_num",
        meaning="With `sync_mode` or `use_fleet`: `class: local_cluster_train` with this many trainers.",
        kind=kinds.WHOLE,
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="server_num",
        meaning="With `sync_mode`: `class: local_cluster_train` with this many parameter servers.",
        kind=kinds.WHOLE,
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="save_step_interval",
        meaning="`save_step_interval`.",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
        origin=Origin.UMIAK,
    ),
    Key(name="save_step_path", meaning="`save_step_path`.", kind=kinds.PATH, origin=Origin.UMIAK),
    Key(
        name="save_minutes_interval",
        meaning="`save_minutes_interval`.",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
        origin=Origin.UMIAK,
    ),
    Key(name="keep_checkpoints", meaning="`keep_checkpoints`.", kind=kinds.WHOLE, least=1, origin=Origin.UMIAK),
    Key(name="node_data", meaning="`node_data`.", kind=kinds.CHOICE, choices=words(NodeData), origin=Origin.UMIAK),
    Key(name="seed", meaning="`seed`.", kind=kinds.WHOLE, default=12345, least=0),
    Key(name="shuffle", meaning="`shuffle` for training.", kind=kinds.WHOLE, default=0, least=0, origin=Origin.UMIAK),
    Key(
        name="use_inference",
        meaning="Save an inference model with each checkpoint.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(name="save_inference_feed_varnames", meaning="`save_inference_feed_varnames`.", kind=kinds.NAMES),
    Key(name="save_inference_fetch_varnames", meaning="`save_inference_fetch_varnames`.", kind=kinds.NAMES),
    *ONLINE_KEYS,
    Key(
        name="model",
        meaning="`model` of both phases, from the workspace. `dygraph_model.py` is a model of PaddleRec 2.",
        kind=kinds.PATH,
        default_said="`model.py`, or `dygraph_model.py` if that is there instead",
        origin=Origin.UMIAK,
    ),
    Key(
        name="divide_by",
        meaning="With `dygraph_model.py`: `divide_by` of both datasets.",
        kind=kinds.CHOICE,
        choices=words(DivideBy),
        default_said="`files` if the reader goes through its list of files and does nothing else with it, else `samples`",
        origin=Origin.UMIAK,
    ),
    Key(
        name="drop_last",
        meaning="With `dygraph_model.py`: leave out batches that are not full.",
        kind=kinds.TRUTH,
        default_said="`false`; `true` if the model reads the batch size from the config",
        origin=Origin.UMIAK,
    ),
    Key(
        name="lazy_embeddings",
        meaning="With `dygraph_model.py`: alone, too, rows of embeddings with `sparse=True` only move when they are used.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="table_embeddings",
        meaning="With `dygraph_model.py`: embedding layers that become tables without `sparse=True`.",
        kind=kinds.NAMES,
        origin=Origin.UMIAK,
    ),
    Key(
        name="table_embeddings_above",
        meaning="With `dygraph_model.py`: embeddings with at least so many rows become tables.",
        kind=kinds.WHOLE,
        origin=Origin.UMIAK,
    ),
    Key(
        name="dense_embeddings",
        meaning="With `dygraph_model.py`: embedding layers that stay parameters.",
        kind=kinds.NAMES,
        origin=Origin.UMIAK,
    ),
    Key(
        name="save_pdparams",
        meaning="With `dygraph_model.py`: write PaddleRec's own files, `rec.pdparams` and `rec.pdopt`, into each epoch's checkpoint.",
        kind=kinds.TRUTH,
        default=True,
        origin=Origin.UMIAK,
    ),
    Key(name="sparse_slots", meaning="`sparse_slots` of both datasets.", kind=SPARSE, origin=Origin.UMIAK),
    Key(name="dense_slots", meaning="`dense_slots` of both datasets.", kind=DENSE, origin=Origin.UMIAK),
    Key(name="padding", meaning="`padding` of both datasets.", kind=kinds.WHOLE, default=0, origin=Origin.UMIAK),
    Key(name="use_auc", meaning="", kind=kinds.TRUTH, settled=_METRICS),
    Key(name="auc_num", meaning="", kind=kinds.WHOLE, settled=_METRICS),
    Key(name="use_visual", meaning="", kind=kinds.TRUTH, settled="scalars are written wherever VisualDL is installed"),
    Key(name="use_gloo", meaning="", kind=kinds.TRUTH, settled="trainers find each other without it"),
    Key(name="split_file_list", meaning="", kind=kinds.TRUTH, settled="data is divided among trainers in every mode"),
    Key(name="example_count_method", meaning="", kind=kinds.TEXT, settled="every sample that is read is counted"),
    Key(name="pipe_command", meaning="", kind=kinds.TEXT, ignored=_NATIVE),
    *(
        Key(name=name, meaning="", kind=kinds.TEXT, ignored=_FLUID)
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
    *(Key(name=name, meaning="", kind=kinds.TEXT, ignored=_FILES) for name in ("fs_client", "fs_name", "fs_ugi")),
)
"""The mapping ``runner`` of the newer layout. A meaning in backticks is the key of the older layout that it stands for."""

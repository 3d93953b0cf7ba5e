"""The flags of ``python -m paddle.distributed.launch``, of today and of its ancestors: a table. Values.

Three generations are understood at once. Paddle 3.x and 2.3 or later (``--master``, ``--nnodes``), the fleet launcher
of 2.0 (``--ips``, ``--workers``, ``--elastic_server``), and the first one (``--cluster_node_ips``,
``--selected_gpus``). Where an old flag is just an old name, it is listed as one (``old=``); where it means something of
its own, it has a row in paddle_old_flags. What a row means for the job is decided in paddle.

Names, defaults and variables are Paddle's; where its help and its code disagree, the code was followed.
"""

from __future__ import annotations

from umiak.core.cluster import MOST_NODES, MOST_WORKERS_ON_NODE
from umiak.core.names import DefaultPort
from umiak.schema.flags import FlagKind, flag

NODES = "Nodes"
WORKERS = "Workers"
SERVERS = "Parameter servers"
FAILURES = "Failures and restarts"
SEEN = "Logs and output"
OLDER = "Flags of older launchers"
REFUSED = "Known, but refused"

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LEVEL_NUMBERS = (("10", "DEBUG"), ("20", "INFO"), ("30", "WARNING"), ("40", "ERROR"), ("50", "CRITICAL"))

FLAGS = (
    flag(
        "nnodes",
        "Number of nodes. MIN:MAX makes the job elastic: it runs with as many nodes as are available.",
        NODES,
        default="1",
        metavar="N|MIN:MAX",
        env=("PADDLE_ELASTIC_NP", "PADDLE_NNODES", "PET_NNODES"),
        old=("np",),
        elsewhere=("num_nodes", "num_machines", "hosts"),
    ),
    flag(
        "master",
        "Rendezvous address: one node's address and a free port, or etcd. Without it the first node picks a port and "
        "prints the command for the others.",
        NODES,
        metavar="HOST:PORT|etcd://HOST:PORT",
        env=("PADDLE_MASTER",),
        elsewhere=("coordinator",),
    ),
    flag(
        "rank",
        "Rank of this node, from 0; -1: assigned by the master.",
        NODES,
        kind=FlagKind.NUMBER,
        default=-1,
        least=-1,
        most=MOST_NODES - 1,
        env=("PADDLE_RANK", "PADDLE_TRAINER_ID"),
    ),
    flag(
        "host",
        "Address at which other nodes reach this one. Set it if the node has several.",
        NODES,
        metavar="HOST",
        env=("POD_IP",),
        old=("node_ip",),
    ),
    flag(
        "ips",
        "Addresses of all nodes in rank order; no master is required then.",
        NODES,
        metavar="HOST,...",
        env=("PADDLE_IPS",),
        old=("cluster_node_ips",),
    ),
    flag(
        "start_port",
        "With --ips: first of the consecutive ports for each node's workers. The launchers use the port before it.",
        NODES,
        kind=FlagKind.NUMBER,
        default=DefaultPort.START,
        least=2,
        metavar="PORT",
        env=("PADDLE_START_PORT", "FLAGS_START_PORT"),
        old=("started_port",),
    ),
    flag(
        "sort_ip",
        "Assign node ranks by address instead of order of arrival.",
        NODES,
        kind=FlagKind.TRUTH,
        env=("PADDLE_SORT_IP",),
    ),
    flag(
        "job_id",
        "Name of the job. Jobs that share a master or a log directory need different names.",
        NODES,
        default="default",
        metavar="NAME",
        env=("PADDLE_JOB_ID", "PADDLE_ELASTIC_JOB_ID"),
        elsewhere=("run_id",),
    ),
    flag(
        "nproc_per_node",
        "Number of workers per node, or one per gpu, xpu or cpu; auto: one per device, or per CPU if there is none. Default: "
        "one per device, or one.",
        WORKERS,
        kind=FlagKind.NUMBER,
        least=1,
        most=MOST_WORKERS_ON_NODE,
        words=("auto", "gpu", "xpu", "cpu"),
        metavar="N|auto|gpu|xpu|cpu",
        env=("PADDLE_NPROC_PER_NODE", "PET_NPROC_PER_NODE"),
        elsewhere=("num_processes", "num_gpus", "procs_per_node"),
    ),
    flag(
        "devices",
        "Accelerators of this node to use, by index: 0,1,2,3.",
        WORKERS,
        metavar="N,...",
        env=("PADDLE_DEVICES",),
        aliases=("gpus", "npus", "xpus"),
        old=("selected_devices", "selected_gpus", "selected_npus", "selected_xpus"),
        elsewhere=("gpu_ids", "include"),
    ),
    flag(
        "run_mode",
        "How workers cooperate. Default: ps if any flag about servers is set, else collective.",
        WORKERS,
        choices=("collective", "ps", "ps-heter", "rpc"),
        metavar="MODE",
        env=("PADDLE_RUN_MODE",),
    ),
    flag(
        "server_num",
        "Number of parameter servers per node; may be 0. Default in ps mode: 1.",
        SERVERS,
        kind=FlagKind.NUMBER,
        least=0,
        most=MOST_WORKERS_ON_NODE,
        env=("PADDLE_SERVER_NUM",),
    ),
    flag(
        "trainer_num",
        "Number of trainers per node; may be 0. Default in ps mode: 1.",
        SERVERS,
        kind=FlagKind.NUMBER,
        least=0,
        most=MOST_WORKERS_ON_NODE,
        env=("PADDLE_TRAINER_NUM",),
        old=("worker_num",),
    ),
    flag(
        "servers",
        "Addresses of all parameter servers. Each node runs those with its own address.",
        SERVERS,
        default="",
        metavar="HOST:PORT,...",
        env=("PADDLE_SERVERS_ENDPOINTS",),
    ),
    flag(
        "trainers",
        "Addresses of all trainers, in rank order.",
        SERVERS,
        default="",
        metavar="HOST:PORT,...",
        env=("PADDLE_TRAINERS_ENDPOINTS",),
        old=("workers",),
    ),
    flag(
        "with_gloo",
        "Use gloo for: 0 none, 1 trainers, 2 trainers and servers. Default with flags of the old launcher such as "
        "--worker_num: 0.",
        SERVERS,
        default="1",
        choices=("0", "1", "2"),
        env=("PADDLE_WITH_GLOO",),
    ),
    flag(
        "gloo_port",
        "Port for gloo's rendezvous on the first server's host. Default without --servers: a free port.",
        SERVERS,
        kind=FlagKind.NUMBER,
        default=DefaultPort.GLOO,
        least=1,
        metavar="PORT",
        env=("PADDLE_GLOO_PORT",),
        old=("http_port",),
    ),
    flag(
        "max_restart",
        "Maximum number of restarts after a failure. Setting it, or MIN:MAX nodes, enables restarts.",
        FAILURES,
        kind=FlagKind.NUMBER,
        default=3,
        least=0,
        env=("PADDLE_MAX_RESTART",),
    ),
    flag(
        "elastic_level",
        "-1: restart only if --max_restart is set or --nnodes is a range; 0: the failed node leaves, the others wait; 1: "
        "restart.",
        FAILURES,
        default="-1",
        choices=("-1", "0", "1"),
        env=("PADDLE_ELASTIC_LEVEL",),
    ),
    flag(
        "elastic_timeout",
        "With MIN:MAX nodes: time to wait for more nodes once MIN are present.",
        FAILURES,
        kind=FlagKind.SECONDS,
        default=30.0,
        least=0,
        env=("PADDLE_ELASTIC_TIMEOUT",),
    ),
    flag(
        "log_dir",
        "Directory for log files, one per worker.",
        SEEN,
        default="log",
        metavar="DIR",
        env=("PADDLE_LOG_DIR", "PET_LOG_DIR"),
        elsewhere=("log_directory", "output_filename"),
    ),
    flag(
        "log_level",
        "Log level of the launcher: DEBUG, INFO, WARNING, ERROR or CRITICAL.",
        SEEN,
        default="INFO",
        choices=LEVELS,
        synonyms=(*LEVEL_NUMBERS, ("NOTSET", "DEBUG"), ("0", "DEBUG"), ("WARN", "WARNING"), ("FATAL", "CRITICAL")),
        metavar="LEVEL",
        env=("PADDLE_LOG_LEVEL",),
    ),
    flag(
        "log_overwrite",
        "Overwrite existing log files instead of appending.",
        SEEN,
        kind=FlagKind.TRUTH,
        env=("PADDLE_LOG_OVERWRITE",),
    ),
    flag(
        "enable_gpu_log", "Record GPU utilization of the node beside the logs.", SEEN, kind=FlagKind.TRUTH, default=True
    ),
)

"""The flags of ``python -m paddle.distributed.launch``, of today and of its ancestors: a table. Values.

Three generations are understood at once. Paddle 3.x and 2.3 or later (``--master``, ``--nnodes``), the fleet launcher of
2.0 (``--ips``, ``--workers``, ``--elastic_server``), and the first one (``--cluster_node_ips``, ``--selected_gpus``).
Where an old flag is just an old name, it is listed as one (``old=``); where it means something of its own, it
has a row in paddle_old_flags. What a row means for the job is decided in paddle_launch.

Names, defaults and variables are Paddle's; where its help and its code disagree, the code was followed.
"""

from __future__ import annotations

from umiak.core.cluster import MOST_NODES, MOST_WORKERS_ON_NODE
from umiak.schema.flags import Flag, Kind

NODES = "Who takes part"
WORKERS = "What each node runs"
SERVERS = "Parameter servers"
FAILURES = "When things go wrong"
SEEN = "What you see"
OLDER = "Flags of older launchers"
REFUSED = "Known, but refused"

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LEVEL_NUMBERS = (("10", "DEBUG"), ("20", "INFO"), ("30", "WARNING"), ("40", "ERROR"), ("50", "CRITICAL"))

FLAGS = (
    Flag(
        name="nnodes",
        help="How many nodes take part. MIN:MAX makes the job elastic: it runs with as many as there are.",
        group=NODES,
        default="1",
        metavar="N|MIN:MAX",
        env=("PADDLE_NNODES", "PADDLE_ELASTIC_NP", "PET_NNODES"),
        old=("np",),
        elsewhere=("num_nodes", "num_machines", "hosts"),
    ),
    Flag(
        name="master",
        help="Where the nodes meet: an address of one of them with a free port, or etcd. Without it the first node "
        "chooses a port and prints the command for the others.",
        group=NODES,
        metavar="HOST:PORT|etcd://HOST:PORT",
        env=("PADDLE_MASTER",),
        elsewhere=("coordinator",),
    ),
    Flag(
        name="rank",
        help="This node's number, from 0; -1 leaves it to the master.",
        group=NODES,
        kind=Kind.NUMBER,
        default=-1,
        least=-1,
        most=MOST_NODES - 1,
        metavar="N",
        env=("PADDLE_RANK", "PADDLE_TRAINER_ID"),
    ),
    Flag(
        name="host",
        help="The address by which the other nodes reach this one. Say it if the node has several.",
        group=NODES,
        metavar="HOST",
        env=("POD_IP",),
        old=("node_ip",),
    ),
    Flag(
        name="ips",
        help="The addresses of all nodes in rank order; then no master is needed.",
        group=NODES,
        metavar="HOST,...",
        env=("PADDLE_IPS",),
        old=("cluster_node_ips",),
    ),
    Flag(
        name="start_port",
        help="With --ips: the first of the consecutive ports that each node's workers get. The launchers meet on the one "
        "before it.",
        group=NODES,
        kind=Kind.NUMBER,
        default=6070,
        least=2,
        metavar="PORT",
        env=("PADDLE_START_PORT", "FLAGS_START_PORT"),
        old=("started_port",),
    ),
    Flag(
        name="sort_ip",
        help="Number the nodes by their addresses, not by their arrival.",
        group=NODES,
        kind=Kind.TRUTH,
        default=False,
        metavar="BOOL",
        env=("PADDLE_SORT_IP",),
    ),
    Flag(
        name="job_id",
        help="The job's name: jobs that share a master or a log directory need different ones.",
        group=NODES,
        default="default",
        metavar="NAME",
        env=("PADDLE_JOB_ID", "PADDLE_ELASTIC_JOB_ID"),
        elsewhere=("run_id",),
    ),
    Flag(
        name="nproc_per_node",
        help="Workers on each node: a number, or gpu, xpu, cpu or auto for one for each of them. Not said: one for each device, "
        "or one.",
        group=WORKERS,
        kind=Kind.NUMBER,
        least=1,
        most=MOST_WORKERS_ON_NODE,
        words=("auto", "gpu", "xpu", "cpu"),
        metavar="N|auto|gpu|xpu|cpu",
        env=("PADDLE_NPROC_PER_NODE", "PET_NPROC_PER_NODE"),
        elsewhere=("num_processes", "num_gpus", "procs_per_node"),
    ),
    Flag(
        name="devices",
        help="The accelerators of this node to use, by their numbers: 0,1,2,3.",
        group=WORKERS,
        metavar="N,...",
        env=("PADDLE_DEVICES",),
        aliases=("gpus", "npus", "xpus"),
        old=("selected_devices", "selected_gpus", "selected_npus", "selected_xpus"),
        elsewhere=("gpu_ids", "include"),
    ),
    Flag(
        name="run_mode",
        help="How the workers work together. Not said: ps if anything is said about servers, else collective.",
        group=WORKERS,
        kind=Kind.CHOICE,
        choices=("collective", "ps", "ps-heter", "rpc"),
        metavar="MODE",
        env=("PADDLE_RUN_MODE",),
    ),
    Flag(
        name="server_num",
        help="Parameter servers on each node; may be 0. Not said, in ps mode: 1.",
        group=SERVERS,
        kind=Kind.NUMBER,
        least=0,
        most=MOST_WORKERS_ON_NODE,
        metavar="N",
        env=("PADDLE_SERVER_NUM",),
    ),
    Flag(
        name="trainer_num",
        help="Trainers on each node; may be 0. Not said, in ps mode: 1.",
        group=SERVERS,
        kind=Kind.NUMBER,
        least=0,
        most=MOST_WORKERS_ON_NODE,
        metavar="N",
        env=("PADDLE_TRAINER_NUM",),
        old=("worker_num",),
    ),
    Flag(
        name="servers",
        help="Every parameter server of the job. Each node runs those that have its address.",
        group=SERVERS,
        default="",
        metavar="HOST:PORT,...",
        env=("PADDLE_SERVERS_ENDPOINTS",),
    ),
    Flag(
        name="trainers",
        help="Every trainer of the job, in rank order.",
        group=SERVERS,
        default="",
        metavar="HOST:PORT,...",
        env=("PADDLE_TRAINERS_ENDPOINTS",),
        old=("workers",),
    ),
    Flag(
        name="with_gloo",
        help="Who meets over gloo: 0 nobody, 1 the trainers, 2 trainers and servers. Not said, beside flags of the old launcher "
        "such as --worker_num: 0.",
        group=SERVERS,
        kind=Kind.CHOICE,
        default="1",
        choices=("0", "1", "2"),
        metavar="0|1|2",
        env=("PADDLE_WITH_GLOO",),
    ),
    Flag(
        name="gloo_port",
        help="The port on the first server's host where gloo meets. Not said, and no --servers list: a free one.",
        group=SERVERS,
        kind=Kind.NUMBER,
        default=6767,
        least=1,
        metavar="PORT",
        env=("PADDLE_GLOO_PORT",),
        old=("http_port",),
    ),
    Flag(
        name="max_restart",
        help="How often the job may start anew after a failure. Saying it, or MIN:MAX nodes, turns restarts on.",
        group=FAILURES,
        kind=Kind.NUMBER,
        default=3,
        least=0,
        metavar="N",
        env=("PADDLE_MAX_RESTART",),
    ),
    Flag(
        name="elastic_level",
        help="-1: restart only if --max_restart is said or --nnodes is a range; 0: the failed node leaves, the others wait; 1: restart.",
        group=FAILURES,
        kind=Kind.CHOICE,
        default="-1",
        choices=("-1", "0", "1"),
        metavar="-1|0|1",
        env=("PADDLE_ELASTIC_LEVEL",),
    ),
    Flag(
        name="elastic_timeout",
        help="With MIN:MAX nodes: how long to wait for more nodes once MIN are there.",
        group=FAILURES,
        kind=Kind.SECONDS,
        default=30.0,
        least=0,
        metavar="SECONDS",
        env=("PADDLE_ELASTIC_TIMEOUT",),
    ),
    Flag(
        name="log_dir",
        help="Where the log files go, one for each worker.",
        group=SEEN,
        default="log",
        metavar="DIR",
        env=("PADDLE_LOG_DIR", "PET_LOG_DIR"),
        elsewhere=("log_directory", "output_filename"),
    ),
    Flag(
        name="log_level",
        help="How much the launcher itself says: DEBUG, INFO, WARNING, ERROR or CRITICAL.",
        group=SEEN,
        kind=Kind.CHOICE,
        default="INFO",
        choices=LEVELS,
        synonyms=(*LEVEL_NUMBERS, ("NOTSET", "DEBUG"), ("0", "DEBUG"), ("WARN", "WARNING"), ("FATAL", "CRITICAL")),
        metavar="LEVEL",
        env=("PADDLE_LOG_LEVEL",),
    ),
    Flag(
        name="log_overwrite",
        help="Begin the log files anew; otherwise a run appends to what is there.",
        group=SEEN,
        kind=Kind.TRUTH,
        default=False,
        metavar="BOOL",
        env=("PADDLE_LOG_OVERWRITE",),
    ),
    Flag(
        name="enable_gpu_log",
        help="Record the load of the node's GPUs beside the logs.",
        group=SEEN,
        kind=Kind.TRUTH,
        default=True,
        metavar="BOOL",
    ),
)

"""The page of `umiak launch`. Values."""

from __future__ import annotations

from umiak.cli.texts.command_page import CommandPage
from umiak.launch.command_line.own import FLAGS
from umiak.launch.command_line.paddle_flags import OLDER, REFUSED

_LAST = {OLDER: 1, REFUSED: 2}

PAGE = CommandPage(
    usage=(
        "umiak launch [flags] train.py [arguments of the script]",
        "umiak launch [flags] -m package.module [arguments of the module]",
        "umiak launch [flags] program [arguments of the program]",
    ),
    about="Start a training program on this node, as part of a job on one or many nodes. Sets the rank and address variables that "
    "PaddlePaddle, PyTorch and JAX expect. The flags of `python -m paddle.distributed.launch` and of torchrun work unchanged; "
    "- and _ are interchangeable.",
    examples=(
        ("umiak launch --nproc_per_node 2 train.py --lr 0.1", "two workers on this node"),
        ("umiak launch --devices 0,1,2,3 train.py", "one worker for each of four GPUs"),
        ("umiak launch --nnodes 2 train.py", "prints the command for the other node"),
        ("umiak launch --nnodes 2 --master 10.0.0.1:8090 train.py", "on both nodes, with one UMIAK_TOKEN"),
        ("umiak launch --nnodes 2:4 --job_id ctr train.py", "elastic: runs with 2, 3 or 4 nodes"),
        ("umiak launch --server_num 2 --trainer_num 4 train.py", "parameter servers and trainers"),
        ("umiak launch --max_restart 3 train.py", "restarts after a failure"),
        ("umiak launch --standalone --nproc-per-node=gpu train.py", "flags of torchrun"),
        ("umiak launch --check --nnodes 2", "checks the nodes, starts nothing"),
    ),
    flags=tuple(sorted(FLAGS, key=lambda flag: _LAST.get(flag.group, 0))),
    lists=(
        (OLDER, tuple((f"--{old}", f"Now --{flag.name}.") for flag in FLAGS for old in flag.old)),
        (
            "General",
            (
                ("-m MODULE", "Run a Python module instead of a script. All following arguments are passed to it."),
                ("--", "End of flags: the next argument is the program."),
                ("--version", "Print the version."),
                ("-h, --help", "Print this help."),
            ),
        ),
    ),
    ending="Exit status: that of the worker that failed first (128 + n for signal n), 0 on success, 2 for a wrong command line, "
    "3 for a failure outside of umiak (network, disk, permissions), 70 for a bug of umiak. The command line overrides the environment.",
)

"""The pages of `umiak submit`, `status`, `logs`, `wait`, `cancel`, `list`, `exec` and `fetch`. Values."""

from __future__ import annotations

from umiak.cli.runs import flags, submit_flags
from umiak.cli.texts.command_page import CommandPage

HANDLE = (
    "HANDLE is what `umiak submit` prints, a run's id, or the beginning of one; if several runs begin so, the only one that is "
    "not over. Without it, the newest run is taken."
)

SUBMIT = CommandPage(
    usage=("umiak submit job.yaml [flags]", "umiak submit [flags] -- train.py [arguments of the script]"),
    about="Run a job on a place: this machine, hosts, a cluster or a cloud. Prints the handle of the run. "
    "The job goes on when this command, or your session, ends.",
    examples=(
        ("umiak submit job.yaml", "on this machine, in the background"),
        ("umiak submit job.yaml --on lab", "on the place lab of umiak.toml"),
        ("umiak submit job.yaml --on lab --dry-run", "prints what would be written and run"),
        ("umiak submit --nproc_per_node 2 -- train.py --lr 0.1", "without a file"),
        ("umiak submit --server_num 2 --trainer_num 4 -- train.py", "parameter servers and trainers"),
        ("umiak submit --foreground -- train.py", "follows the logs; Ctrl-C cancels"),
    ),
    flags=submit_flags.FLAGS,
    ending="If this command is killed before it prints the handle, repeat it within an hour: a job that was started, is not over and "
    "was made of the same files is found, and not started twice. Otherwise it is a new run, and that is said. Exit status: 0 if the job was submitted, 2 if the request is wrong, 3 if the place refused.",
)
STATUS = CommandPage(
    usage=("umiak status [HANDLE] [flags]",),
    about="Show the state of a submitted job, its exit code and its nodes.",
    examples=(
        ("umiak status", "the newest run"),
        ("umiak status local://local/train-3f2a9c", "by its handle"),
        ("umiak status train-3f --watch", "refreshed"),
    ),
    flags=flags.STATUS,
    ending=f"{HANDLE} States: queued, starting, running, restarting, stopping, succeeded, failed, cancelled, lost.",
)
LOGS = CommandPage(
    usage=("umiak logs [HANDLE] [flags]",),
    about="Print what the workers of a submitted job have written, each line with its worker.",
    examples=(
        ("umiak logs -f", "follows the newest run"),
        ("umiak logs -f --tail 20", "the last 20 lines of each worker, and all new ones"),
        ("umiak logs train-3f --since 10m", "of the last ten minutes"),
        ("umiak logs train-3f --rank 0", "of one trainer"),
        ("umiak logs train-3f --role server", "of all parameter servers"),
    ),
    flags=flags.LOGS,
    ending="Lines of several workers are in the order of time where their times are known, new ones (-f) in the order of arrival. A line of "
    f"[umiak] says where lines are missing, as after rotation. {HANDLE}",
)
WAIT = CommandPage(
    usage=("umiak wait [HANDLE] [flags]",),
    about="Wait until a submitted job is over.",
    examples=(
        ('umiak wait "$(umiak submit job.yaml)"', "submits, waits, ends as the job does"),
        ("umiak wait train-3f --timeout 2h", "not longer than this"),
    ),
    flags=flags.WAIT,
    ending=f"{HANDLE} Exit status: the job's; 1 if it was cancelled without one; 3 if it is lost or not over in time.",
)
CANCEL = CommandPage(
    usage=("umiak cancel [HANDLE] [flags]",),
    about="Stop a submitted job: SIGTERM to its workers, and SIGKILL after the grace. Returns when it is over.",
    examples=(
        ("umiak cancel", "the newest run that is not over"),
        ("umiak cancel train-3f", "workers have 30 seconds to exit"),
        ("umiak cancel train-3f --grace 0", "at once"),
    ),
    flags=flags.CANCEL,
    ending="HANDLE is what `umiak submit` prints, a run's id, or the beginning of one; if several runs begin so, the only one that is "
    "not over. Without it, the newest run that is not over is cancelled, and its handle is printed first; nothing is asked, so in scripts "
    "write the handle in quotes. A job that is already over is left as it is.",
)
LIST = CommandPage(
    usage=("umiak list [flags]",),
    about="List the jobs that you submitted, the newest first.",
    examples=(
        ("umiak list", "the last 20"),
        ("umiak list --on lab --all", "all of one place"),
        ("umiak list --on prod --everybody", "also those of other people"),
        ("umiak list --json", "machine-readable"),
    ),
    flags=flags.LIST,
    ending="Runs are recorded in ~/.local/state/umiak (XDG_STATE_HOME), readable by you only.",
)
EXEC = CommandPage(
    usage=("umiak exec [HANDLE] [flags] -- command [arguments]", "umiak exec [HANDLE] [flags]"),
    about="Run a command on a node of a running job, in its working directory and with the variables of a worker; without a command, a shell. On PAI and AIHC a shell is a link, which is printed. "
    "Input is passed on, output and errors are kept apart, the exit status is the command's. The job is not disturbed.",
    examples=(
        ("umiak exec train-3f -- nvidia-smi", "on the first node"),
        ("umiak exec train-3f --rank 3 -- py-spy dump --pid 4711", "on the node of a worker"),
        ("umiak exec train-3f --all -- df -h .", "on every node"),
        ("umiak exec train-3f -- sh -c 'du -s * | sort -n'", "pipes and stars need a shell"),
        ("umiak exec train-3f --node 1", "a shell on the second node"),
    ),
    flags=flags.EXEC,
    ending=f"{HANDLE} Ctrl-C reaches the command; a second one ends this command as well. When it ends or is killed, the command on the node is ended, "
    "with everything that it has started. Exit status: the command's; 126 or 127 if it can't be started; 2 if the request is wrong, "
    "3 if the node can't be reached.",
)
FETCH = CommandPage(
    usage=("umiak fetch [HANDLE] [flags] [PATH...]",),
    about="Copy the files of a job here, while it runs or after its end: logs, metrics, checkpoints, plots, whatever is in its working directory, "
    "each node into a directory of its own. Repeated, it brings what is new, and goes on where it was broken off.",
    examples=(
        ("umiak fetch train-3f", "into ./train-3f2a9c"),
        ("umiak fetch train-3f --list", "files and sizes"),
        ("umiak fetch train-3f --to results output", "one directory of the working directory"),
        ("umiak fetch train-3f --node 0 log '*.json'", "logs, and all JSON files, of one node"),
    ),
    flags=flags.FETCH,
    ending=f"{HANDLE} PATH is a file, a directory or a pattern, from the working directory of the job, or as --list prints it; what the job brought in by its "
    "`inputs` is fetched only if it is named. A file here that was changed since is not replaced without --overwrite. Exit status: 0 if all files are here, "
    "2 if the request is wrong or files would be overwritten, 3 if a node could not be reached or a file not be read.",
)

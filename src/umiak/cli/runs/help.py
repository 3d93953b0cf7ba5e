"""The help of `umiak submit`, `status`, `logs`, `wait`, `cancel`, `list`, `exec` and `fetch`, and their reference page, from the tables of flags. A decider."""

from __future__ import annotations

from umiak.cli.runs import flags, submit_flags
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped
from umiak.core.value import value
from umiak.schema.flags import Flag

HANDLE = (
    "HANDLE is what `umiak submit` prints, a run's id, or the beginning of one; if several runs begin so, the only one that is "
    "not over. Without it, the newest run is taken."
)


@value
class HelpPage:
    """What is said about one command."""

    usage: tuple[str, ...]
    about: str
    examples: tuple[tuple[str, str], ...]
    flags: tuple[Flag, ...]
    ending: str


PAGES = {
    "submit": HelpPage(
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
    ),
    "status": HelpPage(
        usage=("umiak status [HANDLE] [flags]",),
        about="Show the state of a submitted job, its exit code and its nodes.",
        examples=(
            ("umiak status", "the newest run"),
            ("umiak status local://local/train-3f2a9c", "by its handle"),
            ("umiak status train-3f --watch", "refreshed"),
        ),
        flags=flags.STATUS,
        ending=f"{HANDLE} States: queued, starting, running, restarting, stopping, succeeded, failed, cancelled, lost.",
    ),
    "logs": HelpPage(
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
    ),
    "wait": HelpPage(
        usage=("umiak wait [HANDLE] [flags]",),
        about="Wait until a submitted job is over.",
        examples=(
            ('umiak wait "$(umiak submit job.yaml)"', "submits, waits, ends as the job does"),
            ("umiak wait train-3f --timeout 2h", "not longer than this"),
        ),
        flags=flags.WAIT,
        ending=f"{HANDLE} Exit status: the job's; 1 if it was cancelled without one; 3 if it is lost or not over in time.",
    ),
    "cancel": HelpPage(
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
    ),
    "list": HelpPage(
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
    ),
    "exec": HelpPage(
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
    ),
    "fetch": HelpPage(
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
    ),
}

HEAD = """\
<!-- Made by `python docs/generate.py` from umiak.cli.runs. Change these, not this file. -->

# Submitting jobs

`umiak submit` runs a [job](job.md) on a place; `umiak status`, `logs`, `wait`, `cancel`, `exec` and `fetch` take the handle that it prints, from any shell.

Places are named in `umiak.toml`, which is looked for in the working directory and above it, and in your own
`~/.config/umiak/config.toml` (`XDG_CONFIG_HOME`). The nearer file wins; one that
somebody else could have written is refused ([who is trusted](../explanation/trust.md)). `local`, this machine, is always there.

```toml
default_place = "here"

[place.here]
backend = "local"

[place.lab]
backend = "ssh"                          # docs/how-to/submit-ssh.md
hosts = ["node0", "root@10.0.0.2:2222"]
```

"""

TAIL = """\
## A handle is enough

A run's record on your machine has the settings of its place as they were when the job was submitted. So a handle works from any directory, and a place of another
project that has the same name never answers for it. What counts if something has changed since:

| changed | what counts |
|---|---|
| `umiak.toml`: hosts, directory, context and so on | the settings of the record: they find the run |
| relative paths in them | seen from the directory where the job was submitted |
| files that they name: ssh config, keys, host file, kubeconfig | the files as they are today; of a kubeconfig, the context and namespace of then |
| passwords, tokens, keys | your environment of today. Records have the names of variables and files, never a secret. A secret that stands in the settings themselves is left out, and read from today's `umiak.toml` of the same directory |

If a place has moved, and the settings of then do not lead to it any more, ask without the record, in a directory whose `umiak.toml` is right:
`XDG_STATE_HOME=$(mktemp -d) umiak status HANDLE`.

A record of an older version has no settings: the `umiak.toml` of the directory where the job was submitted counts then. Without a record, as for a run of another machine, it is the
`umiak.toml` of the working directory.

## What is over stays over

When `umiak status`, `wait`, `cancel` or `list` has seen that a run has succeeded, failed or was cancelled, its record keeps that for good: state, exit code, reason, times and nodes. Nobody is asked
any more, so it makes no difference that a host is switched off, was installed again, that the cluster has forgotten the job, or that `umiak machines down` has released the machines. `umiak wait` returns at once.
Lines are not kept here: `umiak logs` reads them where they are, and says so if the place can't be reached or does not have them any more (UM-SUBMIT-360).

A run that is `lost` is asked about again, since its place may know more some day, and stays lost if nobody does. Slurm may requeue a job that has lost a node or was preempted: such an end counts after ten minutes.

## Repeating a command

Each `umiak submit` is a new run, with two exceptions.

Without `--key`: if nobody has seen the handle, because the command was killed, the connection broke or the output could not be written, the same command finds the run. All of this is compared:

| what | how |
|---|---|
| the job | command, roles, nodes, resources, variables, names of secrets, inputs and outputs |
| its files | by content, as `files:` names them; without `files:`, the scripts that its commands name |
| the place | its name and its settings |
| the directory | the one where the command is typed |
| the time | at most an hour ago |
| the run | it is not over |

If one of them differs, a new run is started, and a note names the old one and the difference. If the place can't be asked whether the run is over, it counts as not over: nothing is started twice.

With `--key TEXT`, for scripts and CI: the same key is the same run of the same job, from the same directory, for as long as its record is kept: also if it is over, however it ended. So a step that is
repeated gets the run that it had, and `umiak wait` its result. A key that comes again with another job or with other files is an error (UM-SUBMIT-009), because the old run would have the old code. To try again
what has failed, take another key, such as one with the number of the attempt. On a machine without the record, the place itself finds a run of the same name and key, if it still has it; nothing is compared then.

## What is kept where

| path | what |
|---|---|
| `~/.local/state/umiak/runs` | a record of each run (`XDG_STATE_HOME`), in `places` the settings of places, in `nodes` how nodes ended, in `pending` submissions whose handle nobody has seen |
| `~/.umiak` on hosts of a place with `backend = "ssh"` | runs, files of jobs, launchers: [Run jobs on hosts, over ssh](../how-to/submit-ssh.md) |
| `~/.local/state/umiak/local/RUN` | a run of the backend `local`: its plan, its processes, its end, and `log` with the output of all workers |
| `~/.local/state/umiak/paddlecloud` | of the backend `paddlecloud`: which job a run became, and the client's keys |
| `~/.local/state/umiak/machines` | of [`umiak machines`](machines.md): places of rented machines, their host keys, requests without an answer |

Only you can read them. If the disk is full, `umiak submit` says so and starts nothing. If it fills up after that, the run has its handle all the same: it is printed, and its record is changed in its place.

Each run gets a `UMIAK_TOKEN` of its own, for its launchers, and for parameter servers and their trainers; other workers are not given
it. It and the job's secrets reach them through a pipe and their environment,
and are written nowhere. On [PaddleCloud](../how-to/submit-paddlecloud.md) they are in the job's `config.ini`, which only you can read.

## States

| state | meaning |
|---|---|
| `queued` | The place has it, and has not started it. |
| `starting` | Machines, images or peers are waited for. |
| `running` | Its workers run. |
| `restarting` | Workers have failed, or nodes were lost, and they are about to be started again. |
| `stopping` | It was cancelled, or it ends. |
| `succeeded` | Every worker ended with 0. Of an elastic job, every worker that was left. |
| `failed` | A worker failed; the exit code is that of the first one. |
| `cancelled` | It was cancelled. |
| `lost` | It is gone, and nobody knows how it ended, as when its supervisor was killed; its workers end within half a minute then. |

Words of places:

{states}

## The place `local`

One machine is one node: a job with `nodes: 2` and `workers: 2` has 4 workers here, and an elastic one as many as it needs at least. Servers and trainers
are started by one launcher, or, where their commands or variables differ, each by one of its own. The job runs in its working directory, or in that of
`files`; nothing is copied. It has your environment, without variables that begin with `UMIAK_`: say those in `env`. `inputs` are fetched into the working directory before the start, `outputs` are stored after the end. Each run has a supervisor, which belongs to no terminal: the job goes on when
`umiak submit` or the session ends. If the supervisor is killed, workers get SIGTERM and then SIGKILL, and the run is `lost`.

## Other places

- `kubernetes`: [submit to Kubernetes](../how-to/submit-kubernetes.md)
- [`ray`](../how-to/submit-ray.md): a running Ray cluster
"""


def text(name: str) -> str:
    """The help of a command."""
    page = PAGES[name]
    lines = [f"{'usage:' if first == 0 else '      '} {usage}" for first, usage in enumerate(page.usage)]
    lines += ["", *wrapped(page.about, WIDTH), "", "Examples:"]
    lines += [f"  {example:<58}# {meaning}" for example, meaning in page.examples]
    for group in dict.fromkeys(flag.group for flag in page.flags):
        lines += ["", f"{group}:"]
        for flag in page.flags:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(page.ending, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/submit.md."""
    from umiak.submit.states import STATES

    parts = [HEAD]
    for name, page in PAGES.items():
        parts.append(f"## `umiak {name}`\n\n```\n{chr(10).join(page.usage)}\n```\n\n{page.about}\n")
        examples = "\n".join(f"{example:<58}# {meaning}" for example, meaning in page.examples)
        rows = "\n".join(
            f"| {_code(spelling(flag))} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in page.flags
        )
        parts.append(
            f"```sh\n{examples}\n```\n\n| flag | default | meaning |\n|---|---|---|\n{rows}\n\n{page.ending}\n"
        )
    states = ["| backend | word | state |", "|---|---|---|"]
    states += [
        f"| {name} | `{word}` | {state.value} |" for name, words in STATES.items() for word, state in words.items()
    ]
    return "\n".join([*parts, TAIL.replace("{states}", "\n".join(states))])


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""

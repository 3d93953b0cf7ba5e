"""The help of `umiak hosts` and its reference page, from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.hosts.flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped

USAGE = (
    "umiak hosts run [flags] -- COMMAND",
    "umiak hosts put [flags] LOCAL REMOTE",
    "umiak hosts get [flags] REMOTE DIRECTORY",
    "umiak hosts check [flags]",
    "umiak hosts clean [flags]",
)
ABOUT = (
    "Run a command on all hosts of a place at once, copy files to or from them, check them, or remove what old runs left there. "
    "Each line of output has the name of its host."
)
EXAMPLES = (
    ("umiak hosts check --on lab", "are all hosts ready for jobs?"),
    ("umiak hosts run --on lab -- nvidia-smi -L", "a command with arguments"),
    ("umiak hosts run --on lab -- 'df -h / | tail -1'", "one word: a line for the shell of the host"),
    ("umiak hosts put --on lab data /data/set1", "a file or a directory to all hosts"),
    ("umiak hosts get --on lab /var/log/syslog logs", "to logs/HOST/syslog"),
    ("umiak hosts clean --on lab --older_than 24h", "ended runs, files of jobs, launchers"),
)
ENDING = (
    "Exit status: 0 if all hosts succeeded; for run the exit status of the first host of the list whose command failed; "
    "3 if a host could not be reached or refused; 2 if the request is wrong."
)
HEAD = """\
<!-- Made by `python docs/generate.py` from umiak.cli.hosts. Change these, not this file. -->

# umiak hosts

"""


def text() -> str:
    """The help."""
    lines = [f"{'usage:' if number == 0 else '      '} {usage}" for number, usage in enumerate(USAGE)]
    lines += ["", *wrapped(ABOUT, WIDTH), "", "Examples:"]
    lines += [f"  {example:<52}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/hosts.md."""
    usage = "\n".join(USAGE)
    examples = "\n".join(f"{example:<52}# {meaning}" for example, meaning in EXAMPLES)
    rows = "\n".join(
        f"| `{spelling(flag).strip()}` | {f'`{default(flag)}`' if default(flag) else ''} | {flag.help} |"
        for flag in FLAGS
    )
    return (
        f"{HEAD}```\n{usage}\n```\n\n{ABOUT}\n\n```sh\n{examples}\n```\n\n"
        f"| flag | default | meaning |\n|---|---|---|\n{rows}\n\n{ENDING}\n\n"
        "The place's hosts are described in [Jobs on hosts, over ssh](../how-to/submit-ssh.md).\n"
    )

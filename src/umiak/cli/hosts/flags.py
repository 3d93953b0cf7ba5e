"""The flags of `umiak hosts`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import FRAMEWORK, JSON, ON, TIMEOUT, flag, shared
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace
from umiak.schema.flags import FlagKind

WHERE = "Hosts"
HOW = "How"

FLAGS = (
    shared(
        ON,
        'Place with `backend = "ssh"`, as umiak.toml or your own config.toml name it. Default: default_place.',
        WHERE,
    ),
    flag("host", "Only this host of the place. Repeatable.", WHERE, many=True, metavar="HOST"),
    replace(TIMEOUT, help="run: stop waiting for the command after this long.", group=HOW, least=0.1),
    shared(FRAMEWORK, "check: framework that must be importable.", HOW),
    flag(
        "older_than",
        "clean: remove ended runs, sent files and launchers not used for this long. Default: keep_days of the place.",
        HOW,
        kind=FlagKind.SECONDS,
        least=0,
    ),
    shared(JSON, "Print JSON: one object per line of output, and one per host.", HOW),
)

PAGE = CommandPage(
    usage=(
        "umiak hosts run [flags] -- COMMAND",
        "umiak hosts put [flags] LOCAL REMOTE",
        "umiak hosts get [flags] REMOTE DIRECTORY",
        "umiak hosts check [flags]",
        "umiak hosts clean [flags]",
    ),
    about="Run a command on all hosts of a place at once, copy files to or from them, check them, or remove what old runs left "
    "there. Each line of output has the name of its host.",
    examples=(
        ("umiak hosts check --on lab", "are all hosts ready for jobs?"),
        ("umiak hosts run --on lab -- nvidia-smi -L", "a command with arguments"),
        ("umiak hosts run --on lab -- 'df -h / | tail -1'", "one word: a line for the shell of the host"),
        ("umiak hosts put --on lab data /data/set1", "a file or a directory to all hosts"),
        ("umiak hosts get --on lab /var/log/syslog logs", "to logs/HOST/syslog"),
        ("umiak hosts clean --on lab --older_than 24h", "ended runs, files of jobs, launchers"),
    ),
    flags=FLAGS,
    ending="Exit status: 0 if all hosts succeeded; for run the exit status of the first host of the list whose command failed; 3 "
    "if a host could not be reached or refused; 2 if the request is wrong.",
)

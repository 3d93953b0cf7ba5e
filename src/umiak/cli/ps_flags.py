"""The flags of `umiak ps status`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import INTERVAL, JSON, OUTPUT, QUIET, WATCH, flag, shared
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace

WHICH = "Servers"
TLS = "TLS"

FLAGS = (
    flag(
        "servers",
        "Addresses of the parameter servers, comma-separated, in their order. Default: UMIAK_SERVERS, else those of your "
        "job on this machine.",
        WHICH,
        letter="s",
        metavar="HOST:PORT,...",
        env=("UMIAK_SERVERS", "PADDLE_PSERVERS_IP_PORT_LIST"),
        elsewhere=("endpoints", "hosts"),
    ),
    flag(
        "job",
        "Name of the job, --job_id of `umiak launch`. Default: UMIAK_JOB_ID, else that of the job on this machine, else "
        "default.",
        WHICH,
        letter="j",
        metavar="NAME",
        env=("UMIAK_JOB_ID", "PADDLE_JOB_ID"),
        aliases=("job_id",),
    ),
    shared(JSON, "Print JSON instead of tables: one object per line and refresh.", OUTPUT),
    WATCH,
    shared(QUIET, "Print errors only; the exit status says whether every server answered.", OUTPUT),
    replace(INTERVAL, help="Time between refreshes, over which rates are measured.", default=1.0),
    flag("tls_ca", "File with the trusted CA certificates (tls of the job).", TLS, metavar="FILE"),
    flag("tls_cert", "Client certificate, for servers that require one.", TLS, metavar="FILE"),
    flag("tls_key", "Private key of the client certificate.", TLS, metavar="FILE"),
    flag("tls_name", "Server name expected in the certificate. Default: the address.", TLS, metavar="NAME"),
)

PAGE = CommandPage(
    usage=("umiak ps status [flags]",),
    about="Show the status of the parameter servers of a running job: rows, memory, pulls and pushes per second, and which trainer "
    "waits for which. Read-only: the job is not affected.",
    examples=(
        ("umiak ps status", "your job on this machine"),
        ("umiak ps status --watch", "refresh every second"),
        ("umiak ps status --json", "machine-readable"),
        ("umiak ps status --quiet", "exit status only: do all servers answer?"),
        ("umiak ps status --servers 10.0.0.1:8200,10.0.0.2:8200", "with UMIAK_TOKEN_FILE set"),
    ),
    flags=FLAGS,
    ending="The job's token is read from UMIAK_TOKEN or UMIAK_TOKEN_FILE; on the machine of a server that you started, it is found "
    "without them. Exit status: 0 if every server answered, 2 for a wrong command line, 3 if a server did not answer.",
)

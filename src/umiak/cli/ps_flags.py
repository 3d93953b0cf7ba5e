"""The flags of `umiak ps status`: a table. Values."""

from __future__ import annotations

from umiak.schema.flags import Flag, Kind, Origin

WHICH = "Which servers"
SHOWN = "What is shown"
TLS = "Servers with TLS"

FLAGS = (
    Flag(
        name="servers",
        letter="s",
        help="Addresses of the job's servers, in their order, with commas. Default: UMIAK_SERVERS, else those of your job on this "
        "machine.",
        group=WHICH,
        origin=Origin.UMIAK,
        metavar="HOST:PORT,...",
        env=("UMIAK_SERVERS", "PADDLE_PSERVERS_IP_PORT_LIST"),
        elsewhere=("endpoints", "hosts"),
    ),
    Flag(
        name="job",
        letter="j",
        help="The job's name, --job_id of `umiak launch`. Default: UMIAK_JOB_ID, else that of the job on this machine, else default.",
        group=WHICH,
        origin=Origin.UMIAK,
        metavar="NAME",
        env=("UMIAK_JOB_ID", "PADDLE_JOB_ID"),
        aliases=("job_id",),
    ),
    Flag(
        name="json",
        help="Print JSON instead of tables: one object per look, each in a line.",
        group=SHOWN,
        origin=Origin.UMIAK,
        kind=Kind.SWITCH,
        default=False,
    ),
    Flag(
        name="watch",
        letter="w",
        help="Look again and again, until Ctrl-C.",
        group=SHOWN,
        origin=Origin.UMIAK,
        kind=Kind.SWITCH,
        default=False,
    ),
    Flag(
        name="interval",
        help="Time between two looks; rates are measured over it.",
        group=SHOWN,
        origin=Origin.UMIAK,
        kind=Kind.SECONDS,
        default=1.0,
        least=0.1,
        metavar="SECONDS",
    ),
    Flag(
        name="tls_ca",
        help="File of the certificates that are trusted, as the job's tls has it.",
        group=TLS,
        origin=Origin.UMIAK,
        metavar="FILE",
    ),
    Flag(
        name="tls_cert",
        help="Certificate to show to servers that ask for one.",
        group=TLS,
        origin=Origin.UMIAK,
        metavar="FILE",
    ),
    Flag(name="tls_key", help="Its key.", group=TLS, origin=Origin.UMIAK, metavar="FILE"),
    Flag(
        name="tls_name",
        help="Name in the servers' certificate. Default: their address.",
        group=TLS,
        origin=Origin.UMIAK,
        metavar="NAME",
    ),
)

"""The flags of `umiak ps status`: a table. Values."""

from __future__ import annotations

from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHICH = "Servers"
SHOWN = "Output"
TLS = "TLS"

FLAGS = (
    Flag(
        name="servers",
        letter="s",
        help="Addresses of the parameter servers, comma-separated, in their order. Default: UMIAK_SERVERS, else those of your "
        "job on this machine.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        metavar="HOST:PORT,...",
        env=("UMIAK_SERVERS", "PADDLE_PSERVERS_IP_PORT_LIST"),
        elsewhere=("endpoints", "hosts"),
    ),
    Flag(
        name="job",
        letter="j",
        help="Name of the job, --job_id of `umiak launch`. Default: UMIAK_JOB_ID, else that of the job on this machine, else "
        "default.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        metavar="NAME",
        env=("UMIAK_JOB_ID", "PADDLE_JOB_ID"),
        aliases=("job_id",),
    ),
    Flag(
        name="json",
        help="Print JSON instead of tables: one object per line and refresh.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="watch",
        letter="w",
        help="Refresh until Ctrl-C.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="quiet",
        letter="q",
        help="Print errors only; the exit status says whether every server answered.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="interval",
        help="Time between refreshes, over which rates are measured.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        default=1.0,
        least=0.1,
        metavar="SECONDS",
    ),
    Flag(
        name="tls_ca",
        help="File with the trusted CA certificates (tls of the job).",
        group=TLS,
        origin=FlagOrigin.UMIAK,
        metavar="FILE",
    ),
    Flag(
        name="tls_cert",
        help="Client certificate, for servers that require one.",
        group=TLS,
        origin=FlagOrigin.UMIAK,
        metavar="FILE",
    ),
    Flag(
        name="tls_key",
        help="Private key of the client certificate.",
        group=TLS,
        origin=FlagOrigin.UMIAK,
        metavar="FILE",
    ),
    Flag(
        name="tls_name",
        help="Server name expected in the certificate. Default: the address.",
        group=TLS,
        origin=FlagOrigin.UMIAK,
        metavar="NAME",
    ),
)

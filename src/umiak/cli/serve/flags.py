"""The flags of `umiak serve`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import QUIET, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.cli.train_flags import FLAGS as TRAIN_FLAGS
from umiak.core.value import replace
from umiak.schema.flags import FlagKind

MODEL = "Model"
WHERE = "Address"
SAFETY = "Beyond this machine"
LIMITS = "Limits"

_OF_TRAIN = {each.name: each for each in TRAIN_FLAGS}

FLAGS = (
    replace(
        _OF_TRAIN["model"],
        group=MODEL,
        help="Config that the model was trained with: its save_inference_path has the inference models.",
    ),
    replace(_OF_TRAIN["override"], group=MODEL),
    flag(
        "models",
        "Directory of an inference model, or of inference models by number, of which the highest is served. Instead of -m.",
        MODEL,
        metavar="DIR",
        elsewhere=("model_dir", "model_repository", "model_path"),
    ),
    flag("name", "Name of the model in addresses. Default: the directory of the config.", MODEL, metavar="NAME"),
    flag(
        "port",
        "Port; 0: any that is free.",
        WHERE,
        kind=FlagKind.NUMBER,
        default=8000,
        least=0,
        most=65535,
        metavar="PORT",
    ),
    flag(
        "token_file",
        "File with a token, readable by you alone, that requests must have: Authorization: Bearer TOKEN.",
        SAFETY,
        metavar="FILE",
    ),
    flag(
        "host",
        "Address to listen at. Beyond loopback only with --token_file, and with --tls_cert or --insecure.",
        SAFETY,
        metavar="ADDRESS",
    ),
    flag("tls_cert", "Certificate, and the chain behind it, as PEM.", SAFETY, metavar="FILE"),
    flag("tls_key", "Its key, as PEM. Default: in the same file.", SAFETY, metavar="FILE"),
    switch("insecure", "Serve beyond this machine without TLS: the token can be read on the way.", SAFETY),
    flag(
        "threads",
        "Threads that compute one batch.",
        LIMITS,
        kind=FlagKind.NUMBER,
        default=1,
        least=1,
        most=256,
        metavar="N",
    ),
    flag(
        "most_rows",
        "Rows in a request, and in a batch of several requests. More in one request: status 413.",
        LIMITS,
        kind=FlagKind.NUMBER,
        default=1024,
        least=1,
        metavar="N",
    ),
    flag(
        "most_waiting",
        "Rows that may wait. More: status 429.",
        LIMITS,
        kind=FlagKind.NUMBER,
        default=16384,
        least=1,
        metavar="N",
    ),
    flag(
        "most_body",
        "Size of a request. More: status 413.",
        LIMITS,
        kind=FlagKind.SIZE,
        default=16 << 20,
        least=1,
        most=(1 << 30) - 1,
        metavar="SIZE",
    ),
    shared(QUIET, "Print warnings and errors only.", MODEL),
)

PAGE = CommandPage(
    usage=("umiak serve -m CONFIG [flags]", "umiak serve --models DIR [flags]"),
    about="Serve the newest inference model of a training over HTTP: the Open Inference Protocol v2, lists of instances, and metrics for "
    "Prometheus. Requests that come together are computed together. A newer version is taken over as soon as it is there, without a lost "
    "request. The address is printed to stdout when it is ready.",
    examples=(
        ("umiak serve -m ctr --port 8000", "at http://127.0.0.1:8000"),
        ("umiak serve --models served/3 --name ctr", "one version, without a config"),
        ("umiak serve -m ctr --host 0.0.0.0 --token_file t --tls_cert c.pem", "for other machines"),
    ),
    flags=FLAGS,
    ending="SIGTERM and Ctrl-C: no new connections, requests that are there are answered, then it ends. Exit status: 0 after a signal, 2 for "
    "a wrong command line or config, 3 if the address is taken or a model can't be loaded.",
)

"""The flags of `umiak kubeconfig`: a table. Values."""

from __future__ import annotations

from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHICH = "Cluster"
DONE = "What is done"


def _flag(name: str, help: str, group: str, metavar: str = "NAME") -> Flag:  # noqa: A002 - the field's name
    return Flag(name=name, help=help, group=group, origin=FlagOrigin.UMIAK, metavar=metavar)


def _switch(name: str, help: str) -> Flag:  # noqa: A002
    return Flag(name=name, help=help, group=DONE, origin=FlagOrigin.UMIAK, kind=FlagKind.SWITCH, default=False)


FLAGS = (
    Flag(
        name="from",
        help="Where the file comes from: Huawei's or Baidu's CCE, Alibaba's ACK, or any cluster.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=("cce", "ack", "file"),
        default="file",
        metavar="cce|ack|file",
    ),
    _flag("use", "Context of the file to take. Default: its current context, or its only one.", WHICH, "CONTEXT"),
    _flag(
        "context", "Name of the context in your own kubeconfig. Default: that of the file, without its ending.", WHICH
    ),
    _flag("namespace", "Namespace of the jobs. Default: the context's, else default.", WHICH),
    _flag("into", "Kubeconfig to add it to. Default: the first of KUBECONFIG, else ~/.kube/config.", DONE, "PATH"),
    _switch("check", "Check and write nothing; without FILE, a context that you have."),
    _switch("offline", "Add it without asking the cluster."),
    _switch("overwrite", "Replace a context of the same name."),
    _switch("json", "Print JSON."),
)

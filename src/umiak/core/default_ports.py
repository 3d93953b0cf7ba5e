"""Ports that are used where neither a person nor a platform names one. Values."""

from __future__ import annotations

START = 6070
"""The first port of workers whose hosts are listed; the launchers meet one below it."""
GLOO = 6767
"""Where the first server opens the store of Paddle's barrier."""
MASTER = 6768
"""Where launchers meet on the first host; below the kernel's ephemeral range."""
STORE = 6769
"""Where the first trainer opens its store if the endpoints of all workers are listed."""
OLD_FIRST = 6170
"""The first port that Paddle's old launcher gives to workers that are listed without one."""
ETCD = 2379
KUBEFLOW = 36543
"""Where the pods of kubeflow.org's PaddleJob meet, at its first one."""

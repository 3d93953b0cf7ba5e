"""What the objects of a run are called, and what marks them as ours. A decider.

    names = RunNames.of("ctr-3f2a9c10")
    names.name, names.secret, names.workload(Role.SERVER)

All names follow from the run's id, so a submission that is repeated finds what the first one created.
"""

from __future__ import annotations

import hashlib
import re

from umiak.core.cluster import Role
from umiak.core.value import value

LONGEST = 40
"""Leaves room in the 63 characters of a host name: ``-worker-0-65535``, or ``-launcher``."""
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "umiak"
RUN, ROLE = "umiak/run", "umiak/role"
"""Labels: the run's name in the cluster, and a pod's role."""
RUN_ID, DIGEST, CANCELLED, KIND, JOB = "umiak/run-id", "umiak/digest", "umiak/cancelled", "umiak/kind", "umiak/job"
"""Annotations."""
INDEX = "batch.kubernetes.io/job-completion-index"
"""A pod's number in its Job, an annotation and on newer clusters a label as well."""
CONTAINER = "umiak"

GROUPS = {Role.SERVER: "ps", Role.TRAINER: "worker", Role.HETER: "heter"}
"""The names of roles in a PaddleJob, which JobSets and Jobs have here as well."""


@value
class RunNames:
    """The names of one run."""

    name: str

    @classmethod
    def of(cls, run_id: str) -> RunNames:
        slug = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
        slug = slug if slug[:1].isalpha() else f"u-{slug}"
        if slug != run_id or len(slug) > LONGEST:
            mark = hashlib.sha256(run_id.encode()).hexdigest()[:8]
            slug = f"{slug[: LONGEST - 9].rstrip('-')}-{mark}"
        return cls(name=slug)

    @property
    def secret(self) -> str:
        return f"{self.name}-secret"

    @property
    def plan(self) -> str:
        """The ConfigMap with the nodes' plans: also the record of the run."""
        return f"{self.name}-plan"

    @property
    def launcher(self) -> str:
        return f"{self.name}-launcher"

    @property
    def files(self) -> str:
        return f"{self.name}-files"

    def job(self, role: Role) -> str:
        """An Indexed Job of one role: as a JobSet would call it, so that pods have the same host names."""
        return f"{self.name}-{GROUPS[role]}-0"

    @property
    def selector(self) -> str:
        return f"{RUN}={self.name}"

"""What a job becomes for BML: the body of its request, and the keys of a place. A decider.

BML brings one directory of BOS into its containers, so that launcher and files are uploaded into the run's. All nodes are alike; of a
job with servers the first nodes are the servers.
"""

from __future__ import annotations

import shlex

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.schema import kinds
from umiak.schema.keys import Key
from umiak.submit.backends.cloud import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.job import Job
    from umiak.schema.sections import Said
    from umiak.submit.backends.cloud.layout import CloudLayout
    from umiak.submit.backends.cloud.settings import CloudSettings

PAGE = "docs/how-to/submit-baidu.md"
MOST_PUBLIC_NODES = 4

TABLE = settings.table(
    Key(name="repository", meaning="Id of the image repository that is bound to BML.", kind=kinds.TEXT, required=True),
    Key(
        name="resource_type",
        meaning="Public resources, or a pool of your own.",
        kind=kinds.CHOICE,
        choices=("PUBLIC", "USER"),
        default="PUBLIC",
    ),
    Key(
        name="resource",
        meaning="Name of the resource pool, such as `GPU_V100` or `CPU_4C_16G`.",
        kind=kinds.TEXT,
        required=True,
    ),
    Key(
        name="strategy",
        meaning="How BML starts the nodes.",
        kind=kinds.CHOICE,
        choices=("PaddleFleet", "PytorchDDP", "Horovod"),
        default="PaddleFleet",
    ),
    store="bos://bucket/folder",
    directory="/tmp/umiak",  # noqa: S108 - in a container of this job alone
)


@value
class BmlSettings:
    """What is BML's own."""

    common: CloudSettings
    repository: str
    resource_type: str
    resource: str
    strategy: str


def settings_of(said: Said, place: str) -> BmlSettings:
    """The settings of a place."""
    return BmlSettings(
        common=settings.common(said, place),
        repository=said.text("repository") or "",
        resource_type=said.text("resource_type") or "",
        resource=said.text("resource") or "",
        strategy=said.text("strategy") or "",
    )


def problems(job: Job, own: BmlSettings) -> list[Problem]:
    """What keeps a job from BML."""
    found = []
    place = own.common.place
    image = job.image or own.common.image
    if own.common.scheme != "bos":
        hint = f'write `store = "bos://bucket/folder"` in [place.{place}]'
        found.append(Problem(code="UM-SUBMIT-271", what=f"BML reads from BOS only: {own.common.store}", hint=hint))
    if image and ":" not in image.rpartition("/")[2]:
        hint = "write it as /project/paddle:2.6"
        found.append(Problem(code="UM-SUBMIT-265", what=f"BML needs an image with a tag: {image}", hint=hint))
    if own.resource_type == "PUBLIC" and job.nodes.most > MOST_PUBLIC_NODES:
        hint = f'use fewer nodes, or `resource_type = "USER"` in [place.{place}]'
        what = f"BML's public resources have at most {MOST_PUBLIC_NODES} nodes for a job: {job.nodes.most}"
        found.append(Problem(code="UM-SUBMIT-264", what=what, hint=hint))
    return found


def body(job: Job, layout: CloudLayout, own: BmlSettings) -> dict[str, Any]:
    """The request."""
    image, _, tag = (job.image or own.common.image).rpartition(":")
    return {
        "name": layout.name,
        "description": f"umiak run {layout.run_id}",
        "train_config": {
            "env_type": "CCR",
            "image": image,
            "tag": tag,
            "repository_id": own.repository,
            "start_cmd": command(layout, own),
            "code_UrlSource": "BOS",
            "code_path": f"{own.common.bucket}/{layout.run_key}",
            "output_UrlSource": "BOS",
            "output_path": f"{own.common.bucket}/{layout.run_key}output/",
            "distribute_strategy": own.strategy,
        },
        "dataset_config": {},
        "resource_config": {
            "resource_type": own.resource_type,
            "resource_name": own.resource,
            "node_count": job.nodes.most,
        },
    }


def command(layout: CloudLayout, own: BmlSettings) -> str:
    """BML starts it in the directory that it brought, wherever that is: it becomes the run's directory."""
    home = shlex.quote(own.common.directory)
    return f'mkdir -p {home} && ln -sfn "$PWD" {home}/run && exec {shlex.join(layout.words)}'

"""What a job becomes for BML: the body of its request, and the keys of a place. A decider.

BML brings one directory of BOS into its containers, so that launcher and files are uploaded into the run's.
All nodes are alike; of a job with servers the first nodes are the servers.
"""

from __future__ import annotations

import shlex

from umiak.core.problem import Problem
from umiak.schema import kinds
from umiak.schema.settings import setting, settings
from umiak.submit.backends.cloud import settings as cloud

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job
    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.cloud.layout import CloudLayout
    from umiak.submit.backends.cloud.settings import CloudSettings

PAGE = "docs/how-to/submit-baidu.md"
MOST_PUBLIC_NODES = 4


@settings
class BmlSettings:
    """A place with BML."""

    common: CloudSettings = cloud.common(
        store="bos://bucket/folder",
        directory="/tmp/umiak",  # noqa: S108 - in a container of this job alone
    )
    repository: str = setting(kinds.TEXT, "Id of the image repository that is bound to BML.", required=True)
    resource_type: str = setting(
        kinds.CHOICE, "Public resources, or a pool of your own.", choices=("PUBLIC", "USER"), default="PUBLIC"
    )
    resource: str = setting(kinds.TEXT, "Name of the resource pool, such as `GPU_V100` or `CPU_4C_16G`.", required=True)
    strategy: str = setting(
        kinds.CHOICE,
        "How BML starts the nodes.",
        choices=("PaddleFleet", "PytorchDDP", "Horovod"),
        default="PaddleFleet",
    )


def problems(job: Job, own: BmlSettings) -> list[Problem]:
    """What keeps a job from BML."""
    problems = cloud.wrong_store(own.common, "BML", "bos")
    place = own.common.place
    image = job.image or own.common.image
    if image and ":" not in image.rpartition("/")[2]:
        hint = "write it as /project/paddle:2.6"
        problems.append(Problem(code="UM-SUBMIT-265", what=f"BML needs an image with a tag: {image}", hint=hint))
    if own.resource_type == "PUBLIC" and job.nodes.most > MOST_PUBLIC_NODES:
        hint = f'use fewer nodes, or `resource_type = "USER"` in [place.{place}]'
        what = f"BML's public resources have at most {MOST_PUBLIC_NODES} nodes for a job: {job.nodes.most}"
        problems.append(Problem(code="UM-SUBMIT-264", what=what, hint=hint))
    return problems


def body(job: Job, layout: CloudLayout, own: BmlSettings) -> JsonObject:
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

"""Logs of jobs in clouds, with stand-ins for their servers."""

from __future__ import annotations

import time

import pytest

from testbed.clouds.server import StandIn
from tests.integration import test_submit_clouds as first
from tests.integration.test_submit_clouds import CLOUDS, WITH_LOGS, pod_id, submission
from umiak.core.cluster import Role
from umiak.core.problem import UmiakError
from umiak.submit.backend import LogsWanted, SinceByPlace
from umiak.submit.backends.cloud.backend import CloudBackend
from umiak.submit.logs import reading as log_reading

pytestmark = [
    # SDKs leave sockets to the garbage collector, and use what Python is about to drop.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
cloud = first.cloud
environ = first.environ
installed = first.installed
name = first.name
place = first.place
s3_of_all = first.s3_of_all


@pytest.mark.parametrize("name", WITH_LOGS)
class TestLogs:
    """Polled, paged, in order."""

    def test_lines_of_all_nodes(self, name: str, cloud: StandIn, place: CloudBackend) -> None:
        handle = place.submit(submission(place))
        first, second = ([f"node {rank} line {number}" for number in range(8)] for rank in range(2))
        cloud.only_job().log(pod_id(name, cloud, 0), *first)
        cloud.only_job().log(pod_id(name, cloud, 1), *second)
        cloud.faults = ["log:500", "log:429", "log:lost"]
        lines = list(place.logs(handle, LogsWanted()))
        assert [each.text for each in lines if each.source == "trainer.0"] == first
        assert [each.text for each in lines if each.source == "trainer.1"] == second
        only = list(place.logs(handle, LogsWanted(rank=1)))
        assert [each.text for each in only] == second
        assert {(each.role, each.rank) for each in only} == {(Role.TRAINER, 1)}

    def test_no_line_twice_and_none_missing(self, name: str, cloud: StandIn, place: CloudBackend) -> None:
        """Anyone who stops reading anywhere goes on behind the last line that was seen, however many there are by then."""
        handle = place.submit(submission(place))
        job, pod = cloud.only_job(), pod_id(name, cloud, 0)
        wanted, seen, after = [], [], {}
        for number in range(12):
            new = [f"{number}.{each}" for each in range(number % 4)]
            job.log(pod, *new)
            wanted += new
            for line in place.logs(handle, LogsWanted(rank=0, after=after)):
                seen.append(line.text)
                after = {line.source: line.position}
                if len(seen) % 3 == 0:
                    break
        seen += [line.text for line in place.logs(handle, LogsWanted(rank=0, after=after))]
        assert seen == wanted

    def test_the_last_lines(self, name: str, cloud: StandIn, place: CloudBackend) -> None:
        handle = place.submit(submission(place))
        job = cloud.only_job()
        for rank in range(2):
            job.log(pod_id(name, cloud, rank), *(f"line {number}" for number in range(8)))
        lines = list(log_reading.lines(place, handle, LogsWanted(tail=3)))
        assert [(each.source, each.text) for each in lines] == [
            (f"trainer.{rank}", f"line {number}") for rank in range(2) for number in (5, 6, 7)
        ]
        seen = []
        for line in log_reading.lines(place, handle, LogsWanted(tail=1, follow=True, rank=0)):
            seen.append(line.text)
            if line.text == "line 7":
                job.log(pod_id(name, cloud, 0), "new")
                job.word = CLOUDS[name][3]
        assert seen == ["line 7", "new"]

    def test_since_some_time(self, name: str, cloud: StandIn, place: CloudBackend) -> None:
        """By the cloud's own means, or with a note that says that it can't."""
        handle = place.submit(submission(place))
        cloud.only_job().log(pod_id(name, cloud, 0), "old")
        lines = list(log_reading.lines(place, handle, LogsWanted(rank=0, since_s=time.time() + 5)))
        if isinstance(place, SinceByPlace):
            assert lines == []
            assert [each.text for each in log_reading.lines(place, handle, LogsWanted(rank=0, since_s=1.0))] == ["old"]
        else:
            assert [each.is_note for each in lines] == [True, False]

    def test_following_to_the_end(self, name: str, cloud: StandIn, place: CloudBackend) -> None:
        handle = place.submit(submission(place))
        job, pod = cloud.only_job(), pod_id(name, cloud, 0)
        job.log(pod, "first")
        seen = []
        for line in place.logs(handle, LogsWanted(follow=True)):
            seen.append(line.text)
            if line.text == "first":
                job.log(pod, "second")
            if line.text == "second":
                job.word = CLOUDS[name][3]
                job.log(pod, "last")
        assert seen == ["first", "second", "last"]


@pytest.mark.parametrize("name", ["bml"])
def test_bml_has_no_logs(cloud: StandIn, place: CloudBackend) -> None:
    handle = place.submit(submission(place))
    assert cloud.jobs
    with pytest.raises(UmiakError, match="no logs"):
        list(place.logs(handle, LogsWanted()))

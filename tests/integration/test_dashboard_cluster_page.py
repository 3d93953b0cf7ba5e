"""The page of a cluster in a real Chromium: a token of one's own, one's own jobs, their pods and logs; nothing of anybody else's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import browser
from tests.support.cluster_pages import job, pod
from tests.support.kube_server import TOKEN, KubeServer, strict
from umiak.core.shown import Secrets
from umiak.dashboard.cluster.program import ClusterDashboard, ClusterOptions
from umiak.kube.kubeconfig import KubeAccess

pytestmark = [
    pytest.mark.skipif(bool(browser.missing()) and "CI" not in os.environ, reason=f"without {browser.missing()}"),
    pytest.mark.timeout(300),
]
FITS = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@contextlib.contextmanager
def served(access: KubeAccess) -> Iterator[ClusterDashboard]:
    """In a thread of this process."""
    loop = asyncio.new_event_loop()
    dashboard = ClusterDashboard(ClusterOptions(access=access), {}, version="1.2.3")
    started = threading.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(dashboard.start())
        started.set()
        loop.run_forever()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(30)
        yield dashboard
    finally:
        asyncio.run_coroutine_threadsafe(dashboard.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_a_person_enters_and_follows_a_job(tmp_path: Path) -> None:
    with KubeServer(strict(), {TOKEN}) as server, browser.chromium() as page:
        server.cluster.schemas = None
        server.cluster.put("batch.paddlepaddle.org", "paddlejobs", job("lab", "ctr"))
        server.cluster.put("", "pods", pod("lab", "ctr", 0))
        server.cluster.logs["ctr-worker-0"] = [("2026-01-01T00:00:01.5Z", "<b>step 1</b>")]
        with served(KubeAccess(server=server.url, secrets=Secrets())) as dashboard:

            def shows(text: str) -> None:
                page.wait_for("return document.body.innerText.includes(arguments[0])", text)

            page.open(f"{dashboard.origin}/runs")
            shows("You see what your own token may see")
            page.complaints()  # of the answer that nobody is known yet
            page.run("document.querySelector('[name=token]').focus()")
            page.press(*"wrong", "Enter")
            shows("the cluster does not know this token")
            page.complaints()
            page.run("document.querySelector('[name=token]').value = ''")
            page.press(*TOKEN, "Enter")
            page.wait_for("return document.querySelector('tr[data-run=\"lab.ctr\"] .state.running')")
            assert page.run("return document.cookie + location.hash + location.search") == ""
            page.press("j", "Enter")
            shows("1 of 2 pods up")
            page.run("[...document.querySelectorAll('.tabs a')].find((each) => each.textContent == 'Ranks').click()")
            page.wait_for("return document.querySelector('.ranks a.running')")
            page.run("[...document.querySelectorAll('.tabs a')].find((each) => each.textContent == 'Logs').click()")
            shows("<b>step 1</b>")
            page.run(
                "const list = document.querySelectorAll('select')[0];"
                "list.value = list.options[1].value; list.dispatchEvent(new Event('change'))"
            )
            page.wait_for("return new URLSearchParams(location.search).get('file')")
            server.cluster.logs["ctr-worker-0"].append(("2026-01-01T00:00:02.5Z", "step 2"))
            shows("step 2")
            assert page.run("return document.querySelectorAll('.log li').length") == 2
            server.cluster.change(
                "paddlejobs", "ctr", lambda body: body["status"].update(phase="Completed", message="all is done")
            )
            page.wait_for("return document.querySelector('h1 .state.succeeded')")
            page.resize(360, 740)
            for tab in ("", "?tab=ranks", "?tab=logs", "?tab=config", "?tab=files"):
                page.open(f"{dashboard.origin}/runs/lab.ctr{tab}")
                page.wait_for("return document.querySelector('h1 .state')")
                page.wait_for(FITS)
            assert page.complaints() == []
            own = (f"{dashboard.origin}/", "data:", "chrome:", "about:")
            assert [each for each in page.addresses() if not each.startswith(own)] == []
            page.open("about:blank")

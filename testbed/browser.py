"""A real Chromium without a screen, driven through its own driver.

    with browser.chromium() as page:
        page.open("http://127.0.0.1:8200/#t=...")
        page.wait_for("return document.querySelectorAll('tr').length > 3")
        page.screenshot(Path("runs.png"))
        page.complaints(), page.addresses()

chromedriver speaks JSON over HTTP (WebDriver), so that nothing but Debian's packages is needed. Everything that the browser writes goes to an empty
directory, and none of its own services is asked.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from testbed.processes import program

TOOLS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
START_WITHIN_S = 240.0
ANSWER_WITHIN_S = 240.0
LOOK_S = 0.05
_BINARY = Path("/usr/lib/chromium/chromium")
"""Debian's program itself: the script in front of it asks for settings of a desktop."""


class BrowserError(Exception):
    """The browser did not do what it was asked."""


def missing() -> list[str]:
    """Programs that this machine lacks."""
    return [name for name in TOOLS if program(name) is None]


class BrowserPage:
    """One window."""

    def __init__(self, base: str, session: str) -> None:
        self._base = f"{base}/session/{session}"

    def open(self, address: str) -> None:
        _call("POST", f"{self._base}/url", {"url": address})

    def run(self, script: str, *arguments: object) -> Any:
        """The value that a piece of JavaScript returns."""
        return _call("POST", f"{self._base}/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: object) -> Any:
        """As `run`, of a script that calls its last argument with the value."""
        return _call("POST", f"{self._base}/execute/async", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str, *arguments: object, within_s: float = ANSWER_WITHIN_S) -> Any:
        """The first value that counts as true. BrowserError with what the page shows if none comes."""
        until = time.monotonic() + within_s
        while True:
            found = self.run(script, *arguments)
            if found:
                return found
            if time.monotonic() > until:
                shown = str(self.run("return document.body.innerText"))[:2000]
                raise BrowserError(f"it never was so: {script}\nthe page shows:\n{shown}\n{self.complaints()}")
            time.sleep(LOOK_S)

    def press(self, *keys: str) -> None:
        """Keys of the keyboard, one after the other: letters, or names such as ``Enter``."""
        actions = []
        for key in keys:
            code = _KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": code}, {"type": "keyUp", "value": code}]
        body = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        _call("POST", f"{self._base}/actions", body)

    def resize(self, width: int, height: int) -> None:
        """The size of what is shown, which is below what windows may have: it is set as on a phone."""
        command = {
            "cmd": "Emulation.setDeviceMetricsOverride",
            "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        }
        _call("POST", f"{self._base}/goog/cdp/execute", command)

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        body = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}}
        _call("POST", f"{self._base}/goog/cdp/execute", body)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(_call("GET", f"{self._base}/screenshot")))

    def complaints(self) -> list[str]:
        """What the browser has warned about since the last call: violations of the policy, errors of scripts, requests that failed."""
        entries = _call("POST", f"{self._base}/se/log", {"type": "browser"})
        return [str(entry["message"]) for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def addresses(self) -> list[str]:
        """Every address that pages have asked for since the last call."""
        found = []
        for entry in _call("POST", f"{self._base}/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(str(message["params"]["request"]["url"]))
        return found


_KEYS = {
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Tab": "\ue004",
    "ArrowDown": "\ue015",
    "ArrowUp": "\ue013",
    "Backspace": "\ue003",
}


@contextlib.contextmanager
def chromium(flags: Sequence[str] = ()) -> Iterator[BrowserPage]:
    """A browser with one window, ended with all its processes."""
    driver = program("chromedriver")
    if driver is None:
        raise BrowserError("there is no chromedriver: `python -m testbed.prepare --packages`")
    with tempfile.TemporaryDirectory(prefix="umiak-chromium-", ignore_cleanup_errors=True) as directory:
        started = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            base = f"http://127.0.0.1:{_port(started)}"
            options = {
                "args": [*FLAGS, f"--user-data-dir={directory}", "--window-size=1300,900", *flags],
                **({"binary": str(_BINARY)} if _BINARY.exists() else {}),
            }
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "timeouts": {"script": 30_000, "pageLoad": 30_000},
                "pageLoadStrategy": "eager",
            }
            session = _call("POST", f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            try:
                yield BrowserPage(base, session)
            finally:
                with contextlib.suppress(BrowserError, OSError):
                    _call("DELETE", f"{base}/session/{session}")
        finally:
            started.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(10)
            started.kill()
            started.wait()
            if started.stdout is not None:
                started.stdout.close()


def _port(started: subprocess.Popen[str]) -> int:
    """chromedriver says at which port it listens."""
    assert started.stdout is not None
    for line in started.stdout:
        words = line.split("successfully on port ")
        if len(words) == 2:
            return int(words[1].strip().rstrip("."))
    raise BrowserError("chromedriver has ended")


def _call(method: str, address: str, body: object = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=max(START_WITHIN_S, ANSWER_WITHIN_S)) as answer:
            return json.loads(answer.read())["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise BrowserError(error.read().decode(errors="replace")[:2000]) from None

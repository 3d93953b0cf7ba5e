"""Files in HDFS over HTTP: ``webhdfs://namenode:9870/data``. An adapter; standard library only, no Java.

The user is HADOOP_USER_NAME, a delegation token WEBHDFS_TOKEN; both from the environment alone.
A file is written under another name and renamed, so that nobody ever reads half of it.
"""

from __future__ import annotations

import json
import os
from urllib.parse import quote, urlencode, urlsplit

from umiak.adapters.stores import http_retry
from umiak.adapters.stores.http_retry import FIRST_DELAY_S, Unanswered
from umiak.core.problem import UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")


class WebHdfs:
    """One name node."""

    def __init__(self, url: str, environ: Mapping[str, str], *, first_delay_s: float = FIRST_DELAY_S) -> None:
        parts = urlsplit(url)
        self._base = f"{'https' if parts.scheme == 'swebhdfs' else 'http'}://{parts.netloc.rpartition('@')[2]}"
        self._first_delay_s = first_delay_s
        user, token = environ.get("HADOOP_USER_NAME", ""), environ.get("WEBHDFS_TOKEN", "")
        self._who = {"delegation": token} if token else {"user.name": user} if user else {}

    def list(self, path: str) -> Iterator[tuple[str, int]]:
        """Every file below a path with its size, by its whole path; of a file itself: that one.
        Nothing there: nothing.
        """
        try:
            listed = http_retry.repeat(lambda: self._json("GET", path, "LISTSTATUS"), first_delay_s=self._first_delay_s)
        except Unanswered as error:
            if error.status == 404:
                return
            raise self._failed("LISTSTATUS", path, error) from None
        for row in sorted(listed["FileStatuses"]["FileStatus"], key=lambda each: str(each["pathSuffix"])):
            name = f"{path.rstrip('/')}/{row['pathSuffix']}" if row["pathSuffix"] else path
            if row["type"] == "DIRECTORY":
                yield from self.list(name)
            else:
                yield name, int(row["length"])

    def get(self, path: str, target: str) -> None:
        """Write a file here; its caller removes what a failure leaves."""

        def once() -> None:
            answer = http_retry.send(self._url(path, "OPEN"), "GET")
            if answer.status in (301, 302, 307):
                answer.close()
                answer = http_retry.send(answer.headers["Location"], "GET")
            answer.save(target)

        self._repeat(once, "OPEN", path)

    def put(self, source: str, path: str) -> None:
        """Store a file; what was there under its name is replaced."""
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/.{name}.{os.urandom(6).hex()}.part"

        def once() -> None:
            # No body yet: the name node only says which data node takes it.
            answer = http_retry.send(self._url(draft, "CREATE", overwrite="true"), "PUT")
            answer.close()
            where = answer.headers.get("Location")
            if not where:
                raise Unanswered("no data node was named", again=True)
            with open(source, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
                http_retry.send(where, "PUT", headers=headers, body=file).read()

        try:
            self._repeat(once, "CREATE", path)
            self._repeat(lambda: self._json("DELETE", path, "DELETE"), "DELETE", path)
            self._repeat(lambda: self._rename(draft, path), "RENAME", path)
        except BaseException:
            try:
                self._json("DELETE", draft, "DELETE")
            except Unanswered:
                pass  # what went wrong first is told
            raise

    def _rename(self, draft: str, path: str) -> None:
        if self._json("PUT", draft, "RENAME", destination=path).get("boolean") is True:
            return
        if not list(self.list(draft)) and list(self.list(path)):
            return  # it was renamed, and the answer was lost
        raise Unanswered("the file was written and can't be renamed", again=False)

    def _json(self, method: str, path: str, op: str, **query: str) -> Any:
        return json.loads(http_retry.send(self._url(path, op, **query), method).read())

    def _url(self, path: str, op: str, **query: str) -> str:
        return f"{self._base}/webhdfs/v1{quote(path)}?{urlencode({'op': op, **query, **self._who})}"

    def _repeat(self, act: Callable[[], T], op: str, path: str) -> T:
        try:
            return http_retry.repeat(act, first_delay_s=self._first_delay_s)
        except Unanswered as error:
            raise self._failed(op, path, error) from None

    def _failed(self, op: str, path: str, error: Unanswered) -> UmiakError:
        hint = "set HADOOP_USER_NAME or WEBHDFS_TOKEN" if error.status in (401, 403) else None
        return UmiakError.refused("UM-SUBMIT-062", f"{self._base}{path}: {op} failed", why=str(error), hint=hint)

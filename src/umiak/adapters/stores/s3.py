"""Objects in S3 and in what speaks its language: BOS, OBS and OSS.
An adapter; standard library only, so that any node has it.

    store = S3Store.of("s3://bucket/day1", os.environ)
    store.list("day1/"); store.get("day1/part-0", "/tmp/part-0"); store.put("/tmp/model", "models/1")

Keys, endpoint and region come from the environment alone (`VENDORS`), and stand in no message. Requests are signed with
AWS signature 4 over an unsigned payload, with a Content-MD5: what all of them take, while checksum trailers of newer
SDKs are refused by OBS and OSS. Timeouts, lost connections, 429 and 5xx are tried again. An object appears as a whole
or not at all.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import os
import xml.etree.ElementTree as ET
from urllib.parse import quote, urlsplit

from umiak.adapters.stores import http_retry
from umiak.adapters.stores.http_retry import FIRST_DELAY_S, TIMEOUT_S, Unanswered
from umiak.core.problem import UmiakError
from umiak.core.value import positional_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO, TypeVar

    from umiak.adapters.stores.http_retry import Answer

    T = TypeVar("T")

PART_BYTES = 64 * 1024 * 1024
"""Larger files are sent in parts of this size. 10,000 of them are the most."""
UNSIGNED = "UNSIGNED-PAYLOAD"


@positional_value
class Vendor:
    """What a scheme means: where its endpoint is, and in which variables its settings are."""

    endpoint: str
    """With ``{region}`` in it."""
    region: str
    """If no variable names one."""
    prefix: str
    """Of its variables: BOS_ENDPOINT, BOS_REGION, ..."""
    key_names: tuple[str, str]


VENDORS = {
    "s3": Vendor(
        "https://s3.{region}.amazonaws.com", "us-east-1", "AWS", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ),
    "bos": Vendor("https://s3.{region}.bcebos.com", "bj", "BOS", ("BOS_ACCESS_KEY_ID", "BOS_SECRET_ACCESS_KEY")),
    "obs": Vendor(
        "https://obs.{region}.myhuaweicloud.com", "cn-north-4", "OBS", ("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY")
    ),
    "oss": Vendor(
        "https://s3.oss-{region}.aliyuncs.com", "cn-hangzhou", "OSS", ("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET")
    ),
}
"""Where a vendor's own variables are not set, those of AWS count:
AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, ...
"""


class S3Store:
    """One bucket."""

    def __init__(
        self,
        bucket: str,
        endpoint: str,
        region: str,
        keys: tuple[str, str, str] | None,
        *,
        virtual_hosts: bool,
        first_delay_s: float = FIRST_DELAY_S,
        timeout_s: float = TIMEOUT_S,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._bucket = bucket
        parts = urlsplit(endpoint)
        host = parts.netloc
        # A name in front of an address means nothing, and of this machine neither.
        is_named = not (parts.hostname or "").replace(".", "").isdigit() and parts.hostname != "localhost"
        self._host = f"{bucket}.{host}" if virtual_hosts and is_named else host
        self._base = "" if virtual_hosts and is_named else f"/{bucket}"
        self._is_plain = parts.scheme == "http"
        self._region = region
        self._keys = keys
        self._first_delay_s = first_delay_s
        self._timeout_s = timeout_s
        self._part_bytes = part_bytes

    @classmethod
    def of(cls, url: str, environ: Mapping[str, str], *, first_delay_s: float = FIRST_DELAY_S) -> S3Store:
        """The bucket of a URL, with what the environment says about it."""
        scheme, _, rest = url.partition("://")
        vendor = VENDORS[scheme]

        def setting(name: str, *others: str) -> str:
            names = (f"{vendor.prefix}_{name}", *others)
            return next((environ[each] for each in names if environ.get(each)), "")

        region = setting("REGION", "AWS_REGION", "AWS_DEFAULT_REGION") or vendor.region
        endpoint = setting("ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") or vendor.endpoint
        endpoint = endpoint.format(region=region)
        own, aws = vendor.key_names, VENDORS["s3"].key_names
        names = own if environ.get(own[0]) else aws
        keys = None
        if environ.get(names[0]) and environ.get(names[1]):
            token = setting("SESSION_TOKEN", "AWS_SESSION_TOKEN")
            keys = environ[names[0]], environ[names[1]], token
        return cls(
            rest.partition("/")[0],
            endpoint if "://" in endpoint else f"https://{endpoint}",
            region,
            keys,
            virtual_hosts=True,  # OSS takes nothing else
            first_delay_s=first_delay_s,
        )

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Every object whose name begins so, with its size, in order."""
        marker = ""
        while True:
            query = {"prefix": prefix, "max-keys": "1000", **({"marker": marker} if marker else {})}
            tree = self._ask_xml("GET", "", query)
            space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
            for entry in tree.iter(f"{space}Contents"):
                marker = entry.findtext(f"{space}Key") or ""
                yield marker, int(entry.findtext(f"{space}Size") or 0)
            if tree.findtext(f"{space}IsTruncated") != "true":
                return

    def get(self, key: str, path: str) -> None:
        """Write an object to a file, which is not there before; its caller removes what a failure leaves."""
        self._repeat(lambda: self._send("GET", key, {}, None).save(path), f"GET {key}")

    def put(self, path: str, key: str) -> None:
        """Store a file as an object."""
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > self._part_bytes:
                self._put_parts(file, size, key)
            else:
                self._ask("PUT", key, body=file.read())

    def put_bytes(self, data: bytes, key: str, *, is_private: bool = False) -> None:
        """Store some bytes as an object; ``is_private``: whatever the bucket allows, nobody but its owner reads it."""
        headers = {"x-amz-acl": "private"} if is_private else {}
        self._repeat(lambda: self._send("PUT", key, {}, data, headers).read(), f"PUT {key}")

    def delete(self, key: str) -> None:
        """Remove an object; nothing if there is none."""
        self._ask("DELETE", key)

    def _put_parts(self, file: BinaryIO, size: int, key: str) -> None:
        part_bytes = max(self._part_bytes, -(-size // 10_000))
        answer = self._ask_xml("POST", key, {"uploads": ""})
        upload = next(each.text or "" for each in answer.iter() if each.tag.endswith("UploadId"))
        try:
            rows = []
            for number in range(1, -(-size // part_bytes) + 1):
                body = file.read(part_bytes)
                self._ask("PUT", key, {"partNumber": str(number), "uploadId": upload}, body=body)
                tag = hashlib.md5(body, usedforsecurity=False).hexdigest()
                rows.append(f'<Part><PartNumber>{number}</PartNumber><ETag>"{tag}"</ETag></Part>')
            whole = f"<CompleteMultipartUpload>{''.join(rows)}</CompleteMultipartUpload>".encode()
            self._repeat(lambda: self._put_together(key, upload, whole), f"POST {key}")
        except BaseException:
            # Parts of an upload that never ends are kept, and paid for.
            self._ask("DELETE", key, {"uploadId": upload})
            raise

    def _put_together(self, key: str, upload: str, whole: bytes) -> None:
        answered = self._send("POST", key, {"uploadId": upload}, whole).read()
        if b"<Error>" in answered:  # with status 200: the answer begins before the work is done
            raise Unanswered("the parts could not be put together", again=True)

    def _ask(self, method: str, key: str, query: Mapping[str, str] | None = None, body: bytes | None = None) -> bytes:
        return self._repeat(lambda: self._send(method, key, query or {}, body).read(), f"{method} {key}")

    def _ask_xml(self, method: str, key: str, query: Mapping[str, str]) -> ET.Element:
        return ET.fromstring(self._ask(method, key, query))  # noqa: S314 - no entities are resolved by it

    def _repeat(self, act: Callable[[], T], what: str) -> T:
        try:
            return http_retry.repeat(act, first_delay_s=self._first_delay_s)
        except Unanswered as error:
            raise self._failed(what, error) from None

    def _failed(self, what: str, error: Unanswered) -> UmiakError:
        hint = None
        if error.status in (401, 403):
            hint = "set the key of this bucket in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        elif error.status == 404:
            hint = "look at the name, the endpoint and the region: AWS_ENDPOINT_URL, AWS_REGION"
        return UmiakError.refused("UM-SUBMIT-062", f"{self._host}: {what}: failed", why=str(error), hint=hint)

    def _send(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        body: bytes | None,
        added: Mapping[str, str] | None = None,
    ) -> Answer:
        path = f"{self._base}/{quote(key, safe='/-_.~')}"
        asked = "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))
        headers = {"Host": self._host, "Content-Length": str(len(body or b"")), **(added or {})}
        if body is not None:
            md5 = hashlib.md5(body, usedforsecurity=False).digest()
            headers["Content-MD5"] = base64.b64encode(md5).decode()
        headers.update(self._signature(method, path, asked, headers))
        url = f"{'http' if self._is_plain else 'https'}://{self._host}{path}{'?' if asked else ''}{asked}"
        return http_retry.send(url, method, headers=headers, body=body, timeout_s=self._timeout_s)

    def _signature(self, method: str, path: str, asked: str, headers: Mapping[str, str]) -> dict[str, str]:
        if self._keys is None:
            return {}
        access, secret, token = self._keys
        now = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        added = {
            "x-amz-date": now,
            "x-amz-content-sha256": UNSIGNED,
            **({"x-amz-security-token": token} if token else {}),
        }
        signed = {name.lower(): text for name, text in {**headers, **added}.items() if name != "Content-Length"}
        names = ";".join(sorted(signed))
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        request = f"{method}\n{path}\n{asked}\n{lines}\n{names}\n{UNSIGNED}"
        scope = f"{now[:8]}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{secret}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        added["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return added

"""The vendors' SDKs: imported when a request is sent, with an error that names umiak's extra where one is missing;
and requests that are tried again. An adapter.

They are imported by name, so that nothing of umiak needs them to be installed;
and their own logs, which show signatures and bodies, stay silent whatever the program around them does with logging.
"""

from __future__ import annotations

import datetime as dt

from umiak.adapters.stores import http_retry
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backends.cloud.api import CloudFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.cloud.api import CloudApi

    T = TypeVar("T")

BAIDU = "baidu"
LOGGERS = ("HuaweiCloud-SDK-ModelArtsClient", "baidubce", "alibabacloud-tea", "darabonba-core")


def load(module: str, extra: str) -> Any:
    """A module of an SDK."""
    import importlib
    import logging
    import warnings

    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the SDK's sources, which nobody here can change
            return importlib.import_module(module)
    except ImportError as error:
        raise UmiakError(missing(module, extra, str(error)), exit_status=Exit.REFUSED) from None


def is_installed(module: str) -> bool:
    """Whether it can be imported; it is not."""
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def missing(module: str, extra: str, why: str | None = None) -> Problem:
    """The problem that says so."""
    from umiak.adapters import installation

    return Problem(
        code="UM-SUBMIT-260",
        what=f"the SDK of this cloud is not installed: {module.partition('.')[0]}",
        why=why,
        hint=f"install umiak with the extra `{extra}`: {installation.command(extra)}",
    )


def keys_missing(cloud: str, unset: Sequence[str]) -> Problem:
    """Variables with keys that are not set."""
    return Problem(
        code="UM-SUBMIT-261",
        what=f"the key of {cloud} is not set here: {', '.join(unset)}",
        why="keys are taken from your environment, and from nowhere else",
        hint=f"export {' and '.join(unset)}",
    )


def without(text: str, keys: Mapping[str, str]) -> str:
    """A message of a cloud in one line, in which no key appears: some repeat the one they were sent."""
    for each in keys.values():
        if len(each) >= 4:
            text = text.replace(each, "***")
    return " ".join(text.split())[:400]


def made(job_id: object) -> str:
    """The id of a job that was created. An answer without one says nothing about whether it was."""
    if not isinstance(job_id, str) or not job_id:
        raise CloudFailure(0, "the answer has no id of a job")
    return job_id


def sent(call: Callable[..., Any], keys: Mapping[str, str], /, *arguments: object, **words: object) -> Any:
    """What a call of an SDK returns; `CloudFailure` for whatever it raises."""
    try:
        return call(*arguments, **words)
    except Exception as error:  # noqa: BLE001 - SDKs raise whatever they like
        raise _failure(error, keys) from None


def seconds_of(text: object) -> float | None:
    """A time in words, since 1970; None if it is none."""
    try:
        return dt.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() if text else None
    except ValueError:
        return None


def utc(seconds: float) -> str:
    """Seconds since 1970 as clouds want them."""
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def baidu_client(service: str, name: str, account: Sequence[str], endpoint: str, timeout_s: float) -> Any:
    """A client of Baidu's SDK that tries nothing again. ``account``: key, secret, and a session's token or nothing."""
    base = load("baidubce.bce_client_configuration", BAIDU)
    credentials = load("baidubce.auth.bce_credentials", BAIDU)
    policy = load("baidubce.retry.retry_policy", BAIDU)
    protocol = load("baidubce.protocol", BAIDU)
    key, secret, token = account
    scheme, _, host = endpoint.partition("://")
    config = base.BceClientConfiguration(
        credentials=credentials.BceCredentials(key, secret),
        endpoint=host,
        protocol=protocol.HTTP if scheme == "http" else protocol.HTTPS,
        connection_timeout_in_mills=int(timeout_s * 1000),
        retry_policy=policy.NoRetryPolicy(),
        security_token=token or None,
    )
    return getattr(load(service, BAIDU), name)(config)


def _failure(error: Exception, keys: Mapping[str, str]) -> CloudFailure:
    """What an exception of an SDK means. Mistakes in a program are raised as they are."""
    if isinstance(error, (TypeError, AttributeError, NameError, LookupError)):
        raise error
    # Baidu's puts a traceback around the error that it is about.
    cause = getattr(error, "last_error", None) or error
    status = next((found for name in ("status_code", "statusCode") if (found := getattr(cause, name, None))), 0)
    message = getattr(cause, "error_msg", None) or getattr(cause, "message", None) or str(cause) or type(cause).__name__
    code = getattr(cause, "error_code", None) or getattr(cause, "code", None)
    text = f"{code}: {message}" if code and str(code) not in str(message) else str(message)
    return CloudFailure(int(status), without(text if status else f"{type(cause).__name__}: {text}", keys))


FIRST_DELAY_S = 0.5


def with_retries(act: Callable[[], T], *, first_delay_s: float = FIRST_DELAY_S) -> T:
    """Do it until it succeeds, is refused, or has failed too often."""
    return http_retry.repeat(act, first_delay_s=first_delay_s)


def created(api: CloudApi, name: str, body: JsonObject, *, first_delay_s: float = FIRST_DELAY_S) -> str:
    """Create a job unless there is one of this name.
    After an unclear answer it is looked for before it is created again.

    A request that was thought lost may still arrive after that look. So once there was doubt, all jobs of
    the name are looked at in the end, and all but the oldest are stopped: every client chooses the same one.
    """
    is_unclear = False
    failures = 0
    while True:
        jobs = with_retries(lambda: api.named(name), first_delay_s=first_delay_s)
        if jobs:
            return _only(api, [job.id for job in jobs], first_delay_s)
        try:
            job_id = api.create(body)
        except CloudFailure as error:
            failures += 1
            is_unclear = is_unclear or error.is_unclear
            http_retry.wait(failures, error, first_delay_s=first_delay_s)
            continue
        if not is_unclear:
            return job_id
        jobs = with_retries(lambda: api.named(name), first_delay_s=first_delay_s)
        return _only(api, [job.id for job in jobs] or [job_id], first_delay_s)


def _only(api: CloudApi, ids: list[str], first_delay_s: float) -> str:
    for each in ids[1:]:
        with_retries(lambda each=each: api.stop(each), first_delay_s=first_delay_s)  # type: ignore[misc]
    return ids[0]

"""The vendors' SDKs: imported when a request is sent, with an error that names umiak's extra where one is missing. An adapter.

They are imported by name, so that nothing of umiak needs them to be installed; and their own logs, which show signatures and
bodies, stay silent whatever the program around them does with logging.
"""

from __future__ import annotations

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backends.cloud.api import CloudFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

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


def failure(error: Exception, keys: Mapping[str, str]) -> CloudFailure:
    """What an exception of an SDK means. Mistakes in a program are raised as they are."""
    if isinstance(error, (TypeError, AttributeError, NameError, LookupError)):
        raise error
    # Baidu's puts a traceback around the error that it is about.
    cause = getattr(error, "last_error", None) or error
    status = next((found for name in ("status_code", "statusCode") if (found := getattr(cause, name, None))), 0)
    said = getattr(cause, "error_msg", None) or getattr(cause, "message", None) or str(cause) or type(cause).__name__
    code = getattr(cause, "error_code", None) or getattr(cause, "code", None)
    text = f"{code}: {said}" if code and str(code) not in str(said) else str(said)
    return CloudFailure(int(status), without(text if status else f"{type(cause).__name__}: {text}", keys))

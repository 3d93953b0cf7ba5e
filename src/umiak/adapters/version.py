"""Versions as they were installed: of this umiak, and of any distribution.
An adapter: it reads the metadata of installed packages.
"""

from __future__ import annotations

FRAMEWORKS = {
    "paddle": ("paddlepaddle", *(f"paddlepaddle-{kind}" for kind in ("gpu", "xpu", "npu", "dcu", "gcu"))),
    "torch": ("torch", "torch-npu"),
    "jax": ("jax",),
}
"""The distributions of each framework."""


def version() -> str:
    """``unknown`` in a source tree that was not installed. Written in native/Cargo.toml alone."""
    return version_of("umiak") or "unknown"


def version_of(distribution: str) -> str:
    """Empty if it is not installed."""
    # Tens of milliseconds, so that only those who want to know pay for it.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def bug_report(error: BaseException) -> list[str]:
    """Lines that say that umiak itself has failed, and what is needed to report it."""
    import sys
    import traceback

    python = ".".join(str(part) for part in sys.version_info[:3])
    return [
        *"".join(traceback.format_exception(error)).rstrip().splitlines(),
        "error: this is a bug in umiak, not in your job",
        f"  hint: please report it with the lines above, umiak {version()} and Python {python}",
    ]

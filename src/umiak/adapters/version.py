"""The version of this umiak, as it was installed. An adapter: it reads the metadata of the installed package."""

from __future__ import annotations


def version() -> str:
    """``unknown`` in a source tree that was not installed. Written in native/Cargo.toml alone."""
    # Tens of milliseconds, so that only those who want to know pay for it.
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("umiak")
    except PackageNotFoundError:
        return "unknown"

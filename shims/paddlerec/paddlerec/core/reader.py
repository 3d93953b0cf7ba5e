"""The base of reader classes."""

from umiak.train.reading.base import ReaderBase

__all__ = ["ReaderBase"]

"""The base of models."""

from umiak.train.engines.modelbase.base import ModelBase

__all__ = ["ModelBase"]

"""The base of parts of models."""

from umiak.train.engines.modelbase.provided import ModelPart as Layer

__all__ = ["Layer"]

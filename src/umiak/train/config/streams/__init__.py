"""Datasets that are streams. A package: `settings` says what of a stream is read, and how a message becomes a sample."""

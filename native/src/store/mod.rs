//! What is on disk: shard files, the log of pushes.

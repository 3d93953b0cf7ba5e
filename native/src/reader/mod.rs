//! The slot reader: text lines to batches.

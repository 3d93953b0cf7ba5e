"""`fluid.layers`: functions that record operations."""

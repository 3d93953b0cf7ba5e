"""Facts, measured: an adapter for each group of checks."""

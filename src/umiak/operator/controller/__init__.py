"""The operator's I/O: what the cluster has is watched, what is decided is done, and only by one operator at a time."""

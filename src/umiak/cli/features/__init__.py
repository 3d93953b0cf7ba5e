"""`umiak features`: features fitted to data, and the lock that comes of it."""

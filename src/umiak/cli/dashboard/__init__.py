"""`umiak dashboard`: every run of this machine in a browser."""

"""`umiak new`: a config for tables that nobody has described."""

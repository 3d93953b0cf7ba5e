"""umiak's native core."""

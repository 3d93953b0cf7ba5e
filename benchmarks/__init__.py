"""Measurements side by side with other launchers. `python -m benchmarks.launch` runs them all; nothing here is shipped."""

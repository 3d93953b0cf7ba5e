"""A run: training, evaluating, online learning, and the checks before."""

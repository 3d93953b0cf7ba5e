"""Evaluating: the metrics that a config asks for besides the model's own."""

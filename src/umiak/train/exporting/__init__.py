"""Trained models and their tables as files that other programs load."""

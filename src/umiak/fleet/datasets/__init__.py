"""Paddle's datasets for jobs with parameter servers:
files, a program that prints samples, batches, shuffling, training.
"""

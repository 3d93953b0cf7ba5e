"""Training from a config: what a ``config.yaml`` says, and what is to be done about it.

files      finds the config and reads it; the only I/O here
document   YAML to a tree in which everything knows its place
keys       every key there is: one table per section
layouts    the tree to values, in PaddleRec 1.8.5's layout and in the newer one
config     the values
plan       config and environment to who does what
explain    a plan as text
metrics    what a model is judged by; for trainers, with numpy
"""

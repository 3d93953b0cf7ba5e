"""Training from a config: what a ``config.yaml`` says, and what is to be done about it.

config        what a config says: keys, layouts, values; `load` finds and reads it
plan          config and environment to who does what
reading       a dataset of a config to batches
metrics       what a model is evaluated by
modeling      what models are written with
engines       what computes
checkpoints   what a run keeps and publishes
reports       what a run says
run           puts them together
"""

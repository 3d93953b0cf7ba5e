"""Samples in another order in each epoch, and whether they need it. A package.

pieces      files in pieces, in an order of seed and epoch, divided among trainers
windows     what a reader class makes, permuted in windows (the native reader does it itself)
label_runs  long stretches of samples with one label
"""

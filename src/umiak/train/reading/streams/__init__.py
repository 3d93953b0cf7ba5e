"""Streams as data for training: messages in ranges of offsets, divided as files are. A package.

decoding    messages as the columns of a batch
samples     a trainer's samples of a stream
"""

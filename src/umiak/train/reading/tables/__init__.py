"""Tables as data for training: Parquet, CSV and JSON lines, read natively and divided as slot text is. A package.

places      what a part of a file stands for: rows of row groups, or rows that begin in a range of bytes
encoding    rows of a table as columns of a batch, by the features of a config
samples     a trainer's samples of tables
looking     what is looked at before training begins
"""

"""Files that are kept elsewhere: S3 and its relatives and HDFS over HTTP,
reached with nothing installed, and all that fsspec reads.
"""

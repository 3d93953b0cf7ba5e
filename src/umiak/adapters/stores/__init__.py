"""Files that are kept elsewhere, reached with nothing installed: S3 and its relatives, HDFS over HTTP."""

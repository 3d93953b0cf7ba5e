"""Streams: topics of Kafka as data, read by ranges of offsets. A package.

places    where a stream is, and which of its messages are meant
passes    which messages are read next
kafka     what reads them
"""

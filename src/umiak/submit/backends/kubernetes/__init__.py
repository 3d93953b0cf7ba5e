"""The place kubernetes: a job as an Indexed Job, a JobSet or a PaddleJob,
through the cluster's API with the standard library alone.
"""

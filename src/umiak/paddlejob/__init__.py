"""PaddleJob, the resource of Kubernetes clusters, as values:
what people write, what is made of it, what is reported.
"""

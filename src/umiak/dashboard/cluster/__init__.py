"""PaddleJobs of a cluster as runs of the page: read from the cluster's API with the rights of the person who looks, never with others."""

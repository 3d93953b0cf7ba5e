"""The command `umiak operator`: serves PaddleJobs in a Kubernetes cluster."""

"""The operator: serves PaddleJobs in a Kubernetes cluster."""

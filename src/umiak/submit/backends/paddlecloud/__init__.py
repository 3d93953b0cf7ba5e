"""The backend `paddlecloud`: MPI and Kubernetes clusters behind the `paddlecloud` client. A package."""

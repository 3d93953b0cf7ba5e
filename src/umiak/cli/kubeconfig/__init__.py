"""The command `umiak kubeconfig`: adds a cluster that somebody got a kubeconfig for."""

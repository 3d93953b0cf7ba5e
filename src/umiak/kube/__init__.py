"""A client of a Kubernetes API, with the standard library alone:
kubeconfigs, credentials, TLS, requests and watches.
"""

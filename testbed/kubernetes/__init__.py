"""Real Kubernetes on one machine: a control plane with fake nodes, and a cluster whose nodes run real containers.

| module | what it gives |
|---|---|
| `programs` | Kubernetes, etcd, CoreDNS and kwok, built once from the Go modules in `go/` |
| `control_plane` | etcd, API server, controller manager and scheduler, on loopback or on a testbed host |
| `fake_nodes` | kwok: nodes that only exist in the API, and pods that run, succeed and fail as annotations say |
| `old_definitions` | custom resources as Kubernetes 1.20 serves them |
| `cluster` | testbed hosts with kubelet, containerd, kube-proxy and DNS: nodes can be lost |
| `node` | one such node |
| `registry` | a registry of images that has an image for every name |
| `forward` | the API server of a testbed host, at a port of loopback |
| `control_groups` | control groups of the containers, which go away with their owner |
"""

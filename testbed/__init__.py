"""Real clusters on one machine, as context managers that tests, benchmarks, examples and people share.

    from testbed import etcd, hosts

    with hosts.network(3) as net, etcd.server(net.hosts[0]) as store:
        a, b, c = net.hosts
        trainer = b.popen(["python", "train.py"], env={**os.environ, "STORE": store.endpoint})
        net.cut(a, b)           # no packet passes between the two, and nobody is told
        c.power_off()

`python -m testbed hosts 3`, `ssh 4`, `slurm 2`, `mpi 2`, `ray 3`, `kubernetes 2` and `etcd` open the same things for a person. A page about them:
docs/how-to/testbed.md.

| module | what it gives |
|---|---|
| `hosts` | machines with names, addresses and process tables of their own, on a switch whose links can be cut |
| `etcd` | an etcd server that can be stopped, started, paused and emptied |
| `sshd` | machines with a real OpenSSH server, on hosts or on loopback |
| `slurm` | a real Slurm, with a node on each host |
| `mpi` | `mpirun` of Open MPI and of MPICH over hosts |
| `ray` | a real Ray cluster, with a node on each host |
| `kubernetes` | a real Kubernetes: a control plane with fake nodes, and a cluster with real ones |
| `disks` | disks that can be filled |
| `prepare` | installs the programs that these need |
| `workspace` | a temporary directory and the programs started in it, which go away together |
| `processes` | finding and pausing a program for certain |
| `pytest_support` | the fixtures, and the rule for machines that cannot have one of these |

Nothing here outlives the process that asked for it, even when that process is killed with SIGKILL. Nothing here is
imported by the product.
"""

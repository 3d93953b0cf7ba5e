"""`umiak launch --check`: examines the nodes of a job instead of running it.

The check is an ordinary job whose program is `python -m umiak.launch.preflight`. Launchers meet, form a cluster, hold
ports and start a worker in every seat as always, so what is examined is what the job would use.

    launcher   check         what is different from an ordinary launch, and how the outcome is told at the end
    both       task          what a launcher sends its workers to do, and what they bring back
    worker     __main__      one worker: opens its seat's port, takes part, ends with the check
               worker        its seat, and where everybody listens
               sockets       listening on ports, and connecting to them
               facts         what its node knows of itself
               member        its talk with the collector
               prober        tries the connections to the other nodes
               collector     the first trainer's second duty, at the store's address: gathers, asks for trials, tells
    values     messages      what members and collector say to one another
               examination   what was gathered, and what comes of it
    deciders   verdict       examination in, verdict out
               findings      everything but the connections
               table         a verdict as text and as JSON

A worker that has found something bad still ends well, with status 0: a failing worker would have all others stopped
before the table is whole. Each node's launcher learns the outcome from a file without a name that its workers inherit,
and turns it into its exit status.
"""

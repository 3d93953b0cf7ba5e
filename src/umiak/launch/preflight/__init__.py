"""`umiak launch --check`: examines the nodes of a job instead of running it.

The check is an ordinary job whose program is `python -m umiak.launch.preflight`. Launchers meet, form a cluster, hold
ports and start a worker in every seat as always, so what is examined is what the job would use.

    launcher   check       what is changed for a check, and how its outcome is told at the end
    worker     __main__    one worker: opens its seat's port, reports, waits for the outcome
               doors       listening on ports, connecting to them, frames
               facts       what a node knows of itself
               member      every worker's side of the talk with the collector; tries the connections to the other nodes
               collector   the first trainer's second duty, at the store's address: gathers, asks for the trials, judges
    both       messages    what they say to one another
    pure       verdict     reports in, findings out
               table       a verdict as text and as JSON

A worker that has found something bad still ends well, with status 0: a failing worker would have all others stopped
before the table is whole. Each node's launcher learns the outcome from a file without a name that its workers inherit, and
turns it into its exit status.
"""

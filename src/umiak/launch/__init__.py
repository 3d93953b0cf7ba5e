"""The launcher: starts, supervises, restarts and ends one node's part of a distributed job.

`program` puts the parts together, `machine` and `rendezvous` decide, `agent` performs. ARCHITECTURE.md has the map.
"""

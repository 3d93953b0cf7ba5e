"""The launcher: starts, supervises, restarts and ends one node's part of a distributed job.

`program` puts the parts together, `node` and `master` decide, `agent` performs, `reports` tells people.
ARCHITECTURE.md has the map.
"""

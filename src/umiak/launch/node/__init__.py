"""One node's decisions: finding the master, running workers, ending them. A package."""

"""One machine's part of a run: a supervisor that outlives the client, its files, its state and its logs."""

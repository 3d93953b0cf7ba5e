"""What the dashboard asks of others, bounded in time: parameter servers and places. A run never waits for it."""

"""What processes leave and receive while they run: the times of their log files, repeated signals."""

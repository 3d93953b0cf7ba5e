"""What a config asks of evaluations."""

"""What a run keeps and publishes, and how far it has come."""

"""What training makes small besides a model's own loss, as a config says it. A package."""

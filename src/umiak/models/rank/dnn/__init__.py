"""A deep network on embeddings. A package."""

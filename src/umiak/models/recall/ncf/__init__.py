"""Neural collaborative filtering. A package."""

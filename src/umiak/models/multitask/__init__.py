"""Models with several answers at once. A package."""

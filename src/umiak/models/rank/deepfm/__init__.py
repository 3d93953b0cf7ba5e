"""DeepFM. A package."""

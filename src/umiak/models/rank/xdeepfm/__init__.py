"""xDeepFM. A package."""

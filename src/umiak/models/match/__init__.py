"""Models that match texts. A package."""

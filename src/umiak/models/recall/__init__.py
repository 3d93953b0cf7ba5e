"""Models that find candidates. A package."""

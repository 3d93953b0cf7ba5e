"""Models that rank: how likely is a click? A package."""

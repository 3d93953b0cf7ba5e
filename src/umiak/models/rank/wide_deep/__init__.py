"""Wide & Deep. A package."""

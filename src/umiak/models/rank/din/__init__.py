"""Deep Interest Network. A package."""

"""ESMM. A package."""

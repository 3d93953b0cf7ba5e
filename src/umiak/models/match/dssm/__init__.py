"""DSSM. A package."""

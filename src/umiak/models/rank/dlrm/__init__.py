"""DLRM. A package."""

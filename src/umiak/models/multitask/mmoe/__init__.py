"""Multi-gate mixture of experts. A package."""

"""Factorization machines. A package."""

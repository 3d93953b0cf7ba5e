"""Logistic regression. A package."""

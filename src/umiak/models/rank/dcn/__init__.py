"""Deep & Cross. A package."""

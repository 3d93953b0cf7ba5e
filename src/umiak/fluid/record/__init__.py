"""A program of fluid as a value: how it is written down, named and printed."""

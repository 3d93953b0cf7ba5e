"""What the backends of clouds have in common: one flow over an API of jobs and a store of objects."""

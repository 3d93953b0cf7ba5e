"""What computes: models, their optimizers and their tables, one module per framework."""

"""What a ``config.yaml`` says: keys, layouts, values."""

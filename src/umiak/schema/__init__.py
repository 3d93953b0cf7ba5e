"""What people write, in flags and in files: read with places, all problems at once."""

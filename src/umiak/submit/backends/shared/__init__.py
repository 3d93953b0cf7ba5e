"""Runs whose nodes and submitting machine share a file system: one directory for each, written here, used there."""

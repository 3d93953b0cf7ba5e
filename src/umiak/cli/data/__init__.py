"""`umiak data`: what is in files of tables, and whether they can be read."""

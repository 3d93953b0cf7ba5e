"""Datasets whose files are tables. A package: `datasets` says what of a table is read, and which slots it has."""

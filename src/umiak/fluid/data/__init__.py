"""Data of programs: datasets of files, generators of their lines, Hadoop's files."""

"""A config for tables that nobody has described: `umiak new`. A package.

looking    samples of all columns, never whole files
guessing   what a column is, from its name and what is in it
writing    the config, with comments
program    all of it, and the directory
"""

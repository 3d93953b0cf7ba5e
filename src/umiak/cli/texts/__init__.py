"""Texts that are made from the tables of flags: help, reference pages, completion scripts. A package."""

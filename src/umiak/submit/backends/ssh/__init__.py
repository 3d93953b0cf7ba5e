"""The place of hosts that are reached by ssh: one supervisor per host,
started everywhere at once, with nothing to install there.
"""

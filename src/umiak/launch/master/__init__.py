"""The master's decisions: which nodes take part, when a generation starts and stops, which nodes may go on.
A package.
"""

"""Runs of this machine as pages of a browser, and as JSON at the same addresses. It reads, and changes nothing.

What programs beside it know, such as the runs of `umiak submit`, is handed over by the command line as functions.
"""

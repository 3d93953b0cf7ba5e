"""Commands and files on the nodes of a run: a second Ray job for each `umiak exec`,
and for each node of `umiak fetch`.
"""

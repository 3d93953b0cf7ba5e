"""The local place: a job's roles as processes of this machine,
through `umiak launch`, under a supervisor that outlives the client.
"""

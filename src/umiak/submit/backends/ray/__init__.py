"""A running Ray cluster: jobs go to its dashboard,
a driver on the cluster starts one launcher in each bundle of a placement group.
"""

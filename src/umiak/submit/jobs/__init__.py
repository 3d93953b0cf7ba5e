"""A job on its way to a place: what no place can obey, what a place changes, and the plan of a submission."""

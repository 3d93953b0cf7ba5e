"""Other launchers of the job: those that this one leads, and those that it calls."""

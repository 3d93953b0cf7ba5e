"""Programs are run: the executor, scopes, what is fed, what is saved."""

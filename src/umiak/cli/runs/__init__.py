"""The commands about submitted jobs: submit, status, logs, wait, cancel, list."""

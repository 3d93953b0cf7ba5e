"""The lines of submitted jobs, whatever place they are on: which ones, in which order."""

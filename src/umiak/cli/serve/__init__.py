"""`umiak serve`: its flags, and the command."""

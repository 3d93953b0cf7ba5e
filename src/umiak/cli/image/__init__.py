"""`umiak image`: its flags, its help, and the command."""

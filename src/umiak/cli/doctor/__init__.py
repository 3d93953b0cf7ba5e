"""`umiak doctor`: its flags, its help, and the command."""

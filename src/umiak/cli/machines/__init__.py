"""`umiak machines`: its flags, its help, and the command."""

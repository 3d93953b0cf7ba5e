"""`umiak export`: its flags, and the command."""

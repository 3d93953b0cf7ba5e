"""`umiak predict`: its flags, and the command."""

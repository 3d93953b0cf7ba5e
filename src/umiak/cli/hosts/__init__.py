"""`umiak hosts`: commands and files on all hosts of a place."""

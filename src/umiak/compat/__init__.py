"""Other programs' command lines in umiak's terms: their flags as tables, and what the flags mean."""

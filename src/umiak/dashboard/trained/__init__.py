"""What `umiak train` leaves in its run directory: curves, and the config. Read, never written."""

"""What the addresses of one run answer."""

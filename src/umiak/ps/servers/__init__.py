"""A server's process, what it tells of itself, and how it is found and looked at from outside."""

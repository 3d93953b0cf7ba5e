"""How launchers reach each other: trust, messages, heartbeats, the election of a master."""

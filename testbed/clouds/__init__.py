"""Stand-ins for the APIs of clouds, on loopback: they check every signature, keep state, and fail on demand."""

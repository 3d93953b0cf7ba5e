"""The nodes of a run, from the client: commands there, and its files brought here."""

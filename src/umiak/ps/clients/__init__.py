"""Who keeps the tables, behind one protocol: servers, this process, or every trainer. Adapters."""

"""Public helpers for tests: simulated platforms, simulated clusters. The program itself imports nothing from here."""

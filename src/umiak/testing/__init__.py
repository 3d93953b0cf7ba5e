"""Public helpers for tests: simulated platforms, the laws of backends. The program itself imports nothing from here."""

"""Programs for people who work on umiak; `make help` lists how to call them."""

"""`kubectl umiak`: commands about runs for people who think in contexts and namespaces."""

"""Word2vec. A package."""

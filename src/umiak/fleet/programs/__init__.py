"""Static programs whose embeddings are tables on parameter servers."""

"""Operations on ids: many classes, trees of items, hashes."""

"""Which rows of a table are in which slots of a cache."""

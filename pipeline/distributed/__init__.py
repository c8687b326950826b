"""What several ranks need: channels, exchanges, shards of a graph."""

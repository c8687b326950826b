"""Where features and graphs are kept: sources, files, shards."""

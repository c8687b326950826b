"""What plans read and make: graphs, items, blocks, batches."""

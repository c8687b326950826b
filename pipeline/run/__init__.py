"""What runs a plan: lowering, the loader, running nodes, prefetch, statistics, shutdown."""
